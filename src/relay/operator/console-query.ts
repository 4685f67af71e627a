/** The query of a request of the console. */
import { ITEM_ID_CHARACTERS_MAX } from '../../protocol/names.ts';
import { type PublicKey, parsePublicKey } from '../../protocol/public-key.ts';
import { wholeNumber } from '../http/route.ts';

const SEARCH_CHARACTERS_MAX = 100;
const TYPE_PATTERN = /^[A-Za-z]{1,40}$/;

/** A parameter that is repeated or malformed spoils all of it. */
export class Query {
  readonly #parameters: URLSearchParams;
  #isGood = true;

  constructor(query: string | undefined) {
    this.#parameters = new URLSearchParams(query ?? '');
    const names = [...this.#parameters.keys()];
    if (new Set(names).size < names.length) this.#isGood = false;
  }

  get isGood(): boolean {
    return this.#isGood;
  }

  wholeNumber(name: string): number | undefined {
    return this.#parsed(name, wholeNumber);
  }

  /** One of these words. */
  oneOf<Word extends string>(name: string, words: readonly Word[]): Word | undefined {
    return this.#parsed(name, (text) => words.find((word) => word === text));
  }

  publicKey(name: string): PublicKey | undefined {
    return this.#parsed(name, parsePublicKey);
  }

  word(name: string): string | undefined {
    return this.#parsed(name, (text) => (TYPE_PATTERN.test(text) ? text : undefined));
  }

  itemId(name: string): string | undefined {
    return this.#parsed(name, (text) => (text.length <= ITEM_ID_CHARACTERS_MAX ? text : undefined));
  }

  search(name: string): string | undefined {
    return this.#parsed(name, (text) => (text.length <= SEARCH_CHARACTERS_MAX ? text : undefined));
  }

  #parsed<T>(name: string, parse: (text: string) => T | undefined): T | undefined {
    const text = this.#parameters.get(name);
    if (text === null || text === '') return undefined;
    const value = parse(text);
    if (value === undefined) this.#isGood = false;
    return value;
  }
}
