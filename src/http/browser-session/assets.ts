/**
 * A page with its script, style and icon, from the folder of `dist` where the build put them: read once, then served
 * from memory. The page requests the other files with the hash of their bytes, so that browsers may cache them.
 */
import { hash } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { packageRoot } from '../../lib/package-root.ts';
import type { Reply } from '../exchange.ts';

const PAGE_FILE = 'page.html';
export const ASSET_FILES = ['page.js', 'page.css', 'icon.svg'] as const;
type AssetFile = (typeof ASSET_FILES)[number];

const TYPES: Readonly<Record<AssetFile, string>> = {
  'page.js': 'text/javascript',
  'page.css': 'text/css',
  'icon.svg': 'image/svg+xml',
};

interface Asset {
  /** The hash of its bytes; a browser may cache it under this query. */
  version: string;
  body: Buffer;
  type: string;
}

export interface Assets {
  page: string;
  files: Readonly<Record<AssetFile, Asset>>;
}

/** The folder where the build puts a page. */
export function builtPage(name: 'console' | 'mail'): string {
  return join(packageRoot(), 'dist', name);
}

/** Reads a built page; `path` is as in `PageNames`. Returns `undefined` when the page was not built. */
export async function readAssets(folder: string, path: string): Promise<Assets | undefined> {
  try {
    const files = {} as Record<AssetFile, Asset>;
    let page = await readFile(join(folder, PAGE_FILE), 'utf8');
    for (const file of ASSET_FILES) {
      const body = await readFile(join(folder, file));
      const version = hash('sha256', body).slice(0, 16);
      files[file] = { version, body, type: TYPES[file] };
      page = page.replaceAll(`${path}/${file}`, `${path}/${file}?${version}`);
    }
    return { page, files };
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw error;
  }
}

export function pageReply({ page }: Assets): Reply {
  return { status: 200, headers: { 'content-type': 'text/html; charset=utf-8' }, body: page };
}

/** The browser may cache the file if it requested it with the hash of its bytes. */
export function assetReply({ version, body, type }: Asset, query: string | undefined): Reply {
  const caching = query === version ? { 'cache-control': 'private, max-age=31536000, immutable' } : {};
  return { status: 200, headers: { 'content-type': type, ...caching }, body };
}

export function redirect(location: string): Reply {
  return { status: 308, headers: { location }, body: '' };
}
