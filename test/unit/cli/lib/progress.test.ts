import { expect, test } from 'vitest';
import { ProgressLine } from '../../../../src/cli/lib/output.ts';

class Output {
  text = '';
  readonly isTTY: boolean;

  constructor(isTTY: boolean) {
    this.isTTY = isTTY;
  }

  write(text: string): void {
    this.text += text;
  }
}

test('a terminal sees one line that is written over, ten times a second at most, and erased in the end', () => {
  const output = new Output(true);
  let nowMs = 0;
  const progress = new ProgressLine(output, () => nowMs);
  nowMs = 1000;
  progress.bytes('backup', 5_000_000, 20_000_000);
  nowMs = 1050;
  progress.bytes('backup', 6_000_000, 20_000_000);
  nowMs = 2000;
  progress.bytes('backup', 20_400_000, 20_000_000);
  nowMs = 3000;
  progress.bytes('backup', 30_000_000, 0);
  progress.end();
  progress.end();
  expect(output.text.split('\r\x1b[K')).toEqual([
    '',
    'backup: 5.0 MB, about 25%, 5 MB/s',
    'backup: 20.4 MB, about 99%, 10 MB/s',
    'backup: 30.0 MB, 10 MB/s',
    '',
  ]);
});

test('whatever is no terminal sees nothing', () => {
  const output = new Output(false);
  const progress = new ProgressLine(output, () => 0);
  progress.bytes('backup', 1, 2);
  progress.say('the backup is unpacked ...');
  progress.end();
  expect(output.text).toBe('');
});
