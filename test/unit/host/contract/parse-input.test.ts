/** A refused value of several forms: the form that its type names is held to it, or all of them are named. */
import { expect, test } from 'vitest';
import { parseOperationInput } from '../../../../src/host/api/handlers.ts';

const TYPES = 'one of hook, claude-socket, codex-socket, command, tmux';
const HOOK = { type: 'hook' };

test.each([
  ['a text', ['hook'], `wake[0] must be an object whose type is ${TYPES}`],
  ['null', [null], `wake[0] must be an object whose type is ${TYPES}`],
  ['no type', [HOOK, {}], `wake[1].type must be ${TYPES}`],
  ['a type that there is not', [{ type: 'hok' }], `wake[0].type must be ${TYPES}`],
  ['a member that its form has not', [{ ...HOOK, typ: 1 }], 'wake[0].typ is no member of wake[0]: did you mean type?'],
  ['a form that lacks one', [{ type: 'command' }], 'wake[0].program is missing'],
  [
    'one by another name',
    [{ type: 'command', program: '/bin/true', argument: [] }],
    'wake[0].arguments is missing, and argument is no member of wake[0]',
  ],
  [
    'a wrong one',
    [HOOK, { type: 'command', program: '/bin/true', arguments: ['a', 3] }],
    'wake[1].arguments[1] must be a text without NUL, at most 4096 characters',
  ],
  [
    'a wrong one that may be null',
    [{ type: 'tmux', socket: 'here', pane: '%1' }],
    'wake[0].socket must be an absolute path, at most 4096 characters, or null',
  ],
])('%s', (_about, wake, message) => {
  const given = Buffer.from(JSON.stringify({ session_id: 's', wake }));
  const path = message.split(' ', 1)[0];
  const refusal = { code: 'BAD_INPUT', message, details: { field: 'wake', path } };
  expect(parseOperationInput('session-register', given)).toMatchObject(refusal);
});
