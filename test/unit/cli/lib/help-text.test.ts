import { expect, test } from 'vitest';
import { commandsBelow, notesOf } from '../../../../src/cli/lib/command-tree.ts';
import { posteCommand, wrapText } from '../../../../src/cli/run.ts';
import { commandContext } from '../../../support/command-run.ts';

test('a paragraph that is too wide is filled anew, and what is indented stays', () => {
  const text = [
    '',
    'One two three four',
    'five six.',
    '',
    'Short.',
    'Lines.',
    '',
    'Examples:',
    '  $ poste with many words in it',
    '',
  ].join('\n');
  expect(wrapText(text, 12)).toBe(
    [
      '',
      'One two',
      'three four',
      'five six.',
      '',
      'Short.',
      'Lines.',
      '',
      'Examples:',
      '  $ poste with many words in it',
      '',
    ].join('\n'),
  );
  expect(wrapText(text, 40)).toBe(text);
});

test('the help of every command fits 80 columns, but for examples and words that are longer', async () => {
  const context = commandContext();
  const poste = await posteCommand(undefined, context);
  const commands = commandsBelow(poste);
  expect(commands.length).toBeGreaterThan(50);
  const wide = commands.flatMap(({ name, command }) => {
    context.stdout.text = '';
    command.outputHelp();
    const lines = context.stdout.text.split('\n').filter((line) => line.length > 80 && !line.startsWith('  $ '));
    return lines.map((line) => `${name}: ${line}`);
  });
  expect(wide).toEqual([]);
});

test('the help of every relay command shows a call of it', async () => {
  const commands = commandsBelow(await posteCommand(undefined, commandContext()));
  const mute = commands.filter(({ name, command }) => {
    const isGroup = command.commands.length > 0;
    return !isGroup && name.startsWith('poste relay') && !notesOf(command).includes(`$ ${name}`);
  });
  expect(mute.map(({ name }) => name)).toEqual(['poste relay quarantine']);
});
