/** Tells what the demo did: a numbered line, and details under it. */
import { styleText } from 'node:util';

let stepNumber = 0;

export function step(what: string, ...details: string[]): void {
  console.log(`${styleText('bold', `${++stepNumber}. ${what}`)}${details.map((line) => `\n   ${line}`).join('')}`);
}
