/**
 * Writes docs/openapi.json, the description of every route of a relay, as `/openapi.json` of its operator's listener
 * shows it:
 *
 *   npm run docs:openapi
 *
 * test/unit/relay/http/openapi.test.ts fails when the file and this script differ.
 */
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { OPERATIONS } from '../src/relay/serve/host-api.ts';
import { openApiDocument } from '../src/relay/http/openapi.ts';

const ROOT = join(import.meta.dirname, '..');
export const OPENAPI_FILE = join(ROOT, 'docs/openapi.json');

export function openApiText(): string {
  const { version } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as { version: string };
  return `${JSON.stringify(openApiDocument({ version, operations: OPERATIONS }), undefined, 1)}\n`;
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) writeFileSync(OPENAPI_FILE, openApiText());
