/** Help as wide as where it is read. */

/** Paragraphs with a line that is too long are filled anew; lines that are indented, as examples are, stay. */
export function filled(text: string, columns: number): string {
  const shown: string[] = [];
  let paragraph: string[] = [];
  const end = (): void => {
    shown.push(...(paragraph.some((line) => line.length > columns) ? refilled(paragraph, columns) : paragraph));
    paragraph = [];
  };
  for (const line of text.split('\n')) {
    if (line === '' || line.startsWith(' ')) {
      end();
      shown.push(line);
    } else paragraph.push(line);
  }
  end();
  return shown.join('\n');
}

function refilled(paragraph: readonly string[], columns: number): string[] {
  const lines: string[] = [];
  for (const word of paragraph.join(' ').split(' ')) {
    const longer = `${lines.at(-1)} ${word}`;
    if (lines.length > 0 && longer.length <= columns) lines[lines.length - 1] = longer;
    else lines.push(word);
  }
  return lines;
}
