import { readFileSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import { hasNotes, withNotes, withoutNotes } from '../../../../src/host/hooks/agent-notes.ts';
import { SettingsRefused } from '../../../../src/host/hooks/settings-text.ts';

const NOTES = withNotes('').trimEnd();

describe('the notes on mail in a file for agents', () => {
  test.each([
    'Rules.\n',
    'Rules.',
    '',
    '\n',
    '# Rules\r\n\r\nBe kind.\r\n',
    '# Rules\r\nNo end',
    'mixed\r\nends\n',
    'with gaps\n\n\n',
  ])('are added to %j and taken out again to the byte; a second time changes nothing', (text) => {
    const noted = withNotes(text);
    expect(noted.startsWith(text)).toBe(true);
    expect(hasNotes(noted)).toBe(true);
    expect(noted).toContain('mail_send');
    expect(withNotes(noted)).toBe(noted);
    expect(withoutNotes(noted)).toBe(text);
  });

  test('are the ones that the docs show', () => {
    expect(readFileSync('docs/mcp.md', 'utf8')).toContain(NOTES);
  });

  test('keep the line ends of the file', () => {
    expect(withNotes('a\r\n').replaceAll('\r\n', '')).not.toContain('\n');
  });

  test('stay where their reader moved them, and what was written around them stays', () => {
    const moved = `above\n\n${NOTES}\n\nbelow\n`;
    expect(withNotes(moved)).toBe(moved);
    expect(withoutNotes(moved)).toBe('above\n\nbelow\n');
    const old = moved.replace('mail_send', 'mail_old');
    expect(withNotes(old)).toBe(moved);
  });

  test('a file without them stays as it is', () => {
    expect(withoutNotes('Rules.\n')).toBe('Rules.\n');
    expect(withoutNotes(undefined)).toBeUndefined();
    expect(hasNotes(undefined)).toBe(false);
  });

  test.each([
    '<!-- poste: begin -->\nhalf',
    'half\n<!-- poste: end -->',
    '<!-- poste: end --><!-- poste: begin -->',
    `${NOTES}\n${NOTES}`,
  ])('markers that are no pair are refused, and nothing is guessed: %j', (text) => {
    expect(() => withNotes(text)).toThrow(SettingsRefused);
    expect(() => withoutNotes(text)).toThrow('markers of Poste that are no pair');
  });
});
