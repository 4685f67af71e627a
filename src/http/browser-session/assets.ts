/**
 * A page, its script, its style and its icon, as the build left them in a folder of `dist`: read once, and served from
 * memory. The page asks for the others with the hash of their bytes, so that a browser may keep them.
 */
import { hash } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { packageRoot } from '../../lib/package-root.ts';
import type { Reply } from '../exchange.ts';

const PAGE_FILE = 'page.html';
export const ASSET_FILES = ['page.js', 'page.css', 'icon.svg'] as const;
export type AssetFile = (typeof ASSET_FILES)[number];

const TYPES: Readonly<Record<AssetFile, string>> = {
  'page.js': 'text/javascript',
  'page.css': 'text/css',
  'icon.svg': 'image/svg+xml',
};

export interface Asset {
  /** The query under which it may be kept. */
  mark: string;
  body: Buffer;
  type: string;
}

export interface Assets {
  page: string;
  files: Readonly<Record<AssetFile, Asset>>;
}

/** Where the build leaves a page. */
export function builtPage(name: 'console' | 'mail'): string {
  return join(packageRoot(), 'dist', name);
}

/** `path` is where the page lies, as in `PageNames`. `undefined` when it was not built. */
export async function readAssets(folder: string, path: string): Promise<Assets | undefined> {
  try {
    const files = {} as Record<AssetFile, Asset>;
    let page = await readFile(join(folder, PAGE_FILE), 'utf8');
    for (const file of ASSET_FILES) {
      const body = await readFile(join(folder, file));
      const mark = hash('sha256', body).slice(0, 16);
      files[file] = { mark, body, type: TYPES[file] };
      page = page.replaceAll(`${path}/${file}`, `${path}/${file}?${mark}`);
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

/** Kept by the browser when it was asked for with the hash of its bytes. */
export function assetReply({ mark, body, type }: Asset, query: string | undefined): Reply {
  const kept = query === mark ? { 'cache-control': 'private, max-age=31536000, immutable' } : {};
  return { status: 200, headers: { 'content-type': type, ...kept }, body };
}

/** `<page>` itself lies one slash further. */
export function movedTo(location: string): Reply {
  return { status: 308, headers: { location }, body: '' };
}
