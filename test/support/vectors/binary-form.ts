/** The vectors of the binary form, read without the code that wrote them, and with it. */
import { expect } from 'vitest';
import { readPush, packedBytes, readMessagePack } from '../../../src/protocol/message-pack.ts';
import { REQUEST_JSON_BOUNDS } from '../../../src/protocol/json.ts';
import { pageOf } from '../../../src/host/relay/relay-forms.ts';
import { framesOf, inBinary, inJson } from '../binary-form.ts';
import { readPlainly } from '../plain-message-pack.ts';
import { type VectorChecks, each, readVectors } from './oracle.ts';

interface FormCase {
  name: string;
  kind: 'push' | 'answer' | 'page' | 'ack';
  json: Record<string, unknown>;
  hex: string;
}

interface RefusedCase {
  name: string;
  refused: string;
}

const { cases } = readVectors('binary-form.json') as { cases: (FormCase | RefusedCase)[] };
const forms = cases.filter((one) => 'json' in one);
const refused = cases.filter((one) => 'refused' in one);
const documents = forms.filter(({ kind }) => kind !== 'page');
const pages = forms.filter(({ kind }) => kind === 'page');
const usual = forms.filter(({ name }) => !/longer forms|another order|cut/.test(name));

const fromHex = (hex: string): Buffer => Buffer.from(hex, 'hex');

export const BINARY_FORM: VectorChecks = {
  file: 'binary-form.json',
  checks: [
    ...each(documents, 'it is the document in JSON', ({ json, hex, kind }) => {
      const value = readPlainly(fromHex(hex), REQUEST_JSON_BOUNDS);
      expect(inJson(value)).toEqual(json);
      const read = kind === 'push' ? readPush(fromHex(hex)) : readMessagePack(fromHex(hex), REQUEST_JSON_BOUNDS);
      expect(read).toEqual(value);
    }),

    ...each(pages, 'a client reads it', ({ json, hex }) => {
      const { items, unreadable, ...page } = pageOf({ body: fromHex(hex), isBinary: true });
      expect(unreadable).toEqual([]);
      expect(inJson({ ...page, items })).toEqual(json);
    }),

    ...each(usual, 'it is written so', ({ json, hex, kind }) => {
      const bytes = kind === 'page' ? framesOf(json) : packedBytes(inBinary(json));
      expect(bytes.toString('hex')).toBe(hex);
    }),

    ...each(refused, 'is no push', ({ refused: hex }) => {
      expect(readPlainly(fromHex(hex), REQUEST_JSON_BOUNDS)).toBeUndefined();
      expect(readPush(fromHex(hex))).toBeUndefined();
    }),

    {
      name: 'the binary form of every request and answer that has one is there',
      run: () => {
        expect(new Set(forms.map(({ kind }) => kind))).toEqual(new Set(['push', 'answer', 'page', 'ack']));
        expect(refused.length).toBeGreaterThan(10);
      },
    },
  ],
};
