/** Bodies of messages on the owner's page: Markdown, diffs and code as they are meant; hostile ones do nothing. */
import { describe, expect, test } from 'vitest';
import { MailWindow, mailPage, putMail, writeToOwner } from '../support/mail-page.ts';
import { browserForSuite } from '../support/page-browser.ts';
import { IS_THOROUGH } from '../support/thorough.ts';

const suite = browserForSuite('mail');

/** A longer body is shown as it was written (src/web/mail/body.ts). */
const FORMATTED_CHARACTERS_MAX = 66_000;
const EVIL = 'https://evil.example';
const CODE =
  'const jobs = 8; // a line that is longer than a narrow window, ' +
  'and must keep its place beside the others of the file';
const DIFF = `diff --git a/a.ts b/a.ts
--- a/a.ts
+++ b/a.ts
@@ -1,2 +1,2 @@
 const a = 1;
-${CODE}
+${CODE} // and more`;
const MARKDOWN = `## Build

It is **green**, see [the log](https://ci.example/4711) and https://ci.example/x.

- one &amp; \`two\`, &rarr; and &nosuchname;
  1. three

| machine | | time |
|---|---|---|
| a | ok | 4 min |

\`\`\`diff
${DIFF}
\`\`\`

> Mend it?

${'The words of a long paragraph stand in lines that a person can read. '.repeat(9)}`;

/** Each would run, fetch or leave the page if any of it became markup. */
const HOSTILE_BODIES: readonly string[] = [
  '<script>hacked()</script>',
  '<img src=x onerror=hacked()>',
  `<img src="${EVIL}/img">`,
  '<svg onload=hacked()><animate onbegin=hacked() attributeName=x></svg>',
  '<iframe srcdoc="<script>parent.hacked()</script>"></iframe>',
  `<iframe src="${EVIL}"></iframe><object data="${EVIL}"></object><embed src="${EVIL}">`,
  `<style>@import "${EVIL}/a.css"; * { background: url(${EVIL}/b) }</style>`,
  `<link rel=stylesheet href="${EVIL}/c.css"><base href="${EVIL}/">`,
  `<meta http-equiv=refresh content="0;url=${EVIL}">`,
  `<form action="${EVIL}"><button autofocus onfocus=hacked()>x</button></form>`,
  '<details open ontoggle=hacked()><summary>x</summary></details>',
  '<video><source onerror=hacked()></video><audio src=x onerror=hacked()>',
  '<a href="javascript:hacked()" onclick=hacked()>x</a>',
  '[a](javascript:hacked()) [b](JaVaScRiPt:hacked()) [c](java&#10;script:hacked()) [d](javascript&colon;hacked())',
  '[a](data:text/html,<script>hacked()</script>) [b](vbscript:hacked()) [c](file:///etc/passwd) [d](blob:x)',
  '[a][r]\n\n[r]: javascript:hacked()\n\n<javascript:hacked()> <data:text/html,x>',
  `![a](${EVIL}/image.png) ![b](data:image/svg+xml,<svg/onload=hacked()>) ![c](javascript:hacked())`,
  `[a](https://ok.example:443@evil.example/) [b](https://bank.example@evil.example)`,
  `[a](${EVIL}/"onmouseover="hacked()) [b](https://ok.example "onmouseover=hacked()")`,
  '```"><img src=x onerror=hacked()>\ncode\n```\n\n```__proto__\ncode\n```\n\n```constructor\ncode\n```',
  '# <img src=x onerror=hacked()>\n\n| <script>hacked()</script> |\n|---|\n| <b onclick=hacked()>x</b> |',
  // Samples of mutation: a cleaner and a parser that disagree.
  '<math><mtext><table><mglyph><style><!--</style><img title="--&gt;&lt;img src=1 onerror=hacked()&gt;">',
  '<noscript><p title="</noscript><img src=x onerror=hacked()>">',
  '<svg></p><style><a id="</style><img src=1 onerror=hacked()>">',
  '<form><math><mtext></form><form><mglyph><style></math><img src onerror=hacked()>',
  '<template><script>hacked()</script></template><xmp><img src=x onerror=hacked()></xmp>',
  '&lt;img src=x onerror=hacked()&gt; &#60;script&#62;hacked()&#60;/script&#62;',
  // A link that hides in code where it leads, and an image in a link.
  '[`https://bank.example/?`https://evil.example/](https://evil.example/)',
  '[![build](https://image.example/x)](https://ci.example/y)',
  '\u202Etxt.exe\u2066 [\u202Emoc.knab](https://evil.example) \u0000\u0007\u001B[31m',
];

/** A body may be made of these. An element or attribute that is not listed here is a fault. */
const ELEMENTS =
  'A BLOCKQUOTE BR BUTTON CODE DIV EM FIGCAPTION FIGURE H3 HR LI OL P PRE S SPAN STRONG TABLE TBODY TD TH THEAD TR UL';
const ATTRIBUTES = 'class dir href target rel title start tabindex role aria-label type';

function foreign(): string {
  return `(() => {
    const elements = new Set('${ELEMENTS}'.split(' '));
    const attributes = new Set('${ATTRIBUTES}'.split(' '));
    const found = [];
    for (const one of document.querySelectorAll('.body *')) {
      if (!elements.has(one.tagName)) found.push(one.outerHTML);
      for (const { name, value } of one.attributes) if (!attributes.has(name)) found.push(name + '=' + value);
      if (one.tagName !== 'A') continue;
      const { protocol, username } = new URL(one.href);
      const isOfTheWeb = ['http:', 'https:'].includes(protocol) && username === '';
      if (!isOfTheWeb || one.target !== '_blank' || one.rel !== 'noopener noreferrer') found.push(one.outerHTML);
    }
    return found;
  })()`;
}

describe('a hostile body', () => {
  test('runs nothing, fetches nothing, and leads nowhere but where its links say', async () => {
    const mail = await mailPage({ pageFolder: suite.pageFolder });
    const { context } = mail;
    // The strong word makes it Markdown. One conversation holds them all.
    const [first = '', ...rest] = HOSTILE_BODIES.map((body) => `**Markdown**\n\n${body}\n\n${body}`);
    const asked = await writeToOwner(context, 'alice', { subject: 'hostile', body: first });
    for (const body of rest) await writeToOwner(context, 'alice', { subject: 'hostile', body, reply_to: asked });
    const window = await MailWindow.entered(suite, mail);
    const { page } = window;
    await page.evaluate(`location.hash = '#/messages/${asked}'`);
    await expect.poll(() => page.locator('.formatted').count()).toBe(HOSTILE_BODIES.length);
    expect(await page.evaluate(foreign())).toEqual([]);
    const links = await page.evaluate<string[]>(
      `[...new Set([...document.querySelectorAll('.body a')].map(({ href }) => href))]`,
    );
    // Each stands in the text as it leads; what would run, or names somebody before an @, is no link.
    const evil = ['', '%22onmouseover=%22hacked()', 'a.css', 'b', 'c.css', 'image.png', 'img'];
    const meant = [
      'https://bank.example/',
      'https://ci.example/y',
      ...evil.map((path) => `${EVIL}/${path}`),
      'https://ok.example/',
    ];
    expect(links.toSorted()).toEqual(meant);
    const hidden = page.locator('a', { hasText: 'https://bank.example/?https://evil.example/' });
    await expect.poll(() => hidden.count()).toBe(2);
    expect(await hidden.first().locator('+ .link-target').textContent()).toBe('(https://evil.example/)');
    // What an event could start: the pointer on every element, the focus on every one that takes it.
    await page.evaluate(`for (const one of document.querySelectorAll('.body *')) {
      for (const type of ['mouseover', 'pointerenter', 'focus', 'load', 'error', 'toggle'])
        one.dispatchEvent(new Event(type));
    }`);
    await page.evaluate(`for (const one of document.querySelectorAll('.body-switch button')) one.click()`);
    await expect.poll(() => page.locator('.as-written').count()).toBe(HOSTILE_BODIES.length);
    expect(await page.evaluate(foreign())).toEqual([]);
    expect(await window.unsound()).toEqual([]);
    expect(await window.violations()).toEqual([]);
  });

  test('of any shape is shown, and holds up nobody for long', async () => {
    const mail = await mailPage({ pageFolder: suite.pageFolder });
    const { context } = mail;
    const all = [
      '>',
      '> - ',
      '- ',
      '[',
      '![',
      '_a__b ',
      '**a*b',
      '`a',
      '|a',
      '<',
      '[a](',
      'a@b.',
      '* a\n  ',
      '&a',
      ' ',
    ];
    const shapes = IS_THOROUGH ? all : all.filter((_shape, at) => at % 5 === 0);
    const ids = await context.store.transact((tx) =>
      shapes.map((shape) => {
        const body = `**b**\n\n${shape.repeat(60_000 / shape.length)}end`;
        return putMail(tx, context, { subject: `shape ${shape}`, body });
      }),
    );
    const parts = IS_THOROUGH ? [')', '.', '.a', '[(]', 'http://a/'] : ['http://a/'];
    const addresses = parts.map((part) => `http://a/${part.repeat(60_000 / part.length)}x end`);
    // An end of 1,000 brackets, and one of the schemas that are no links here.
    const slow = `https://x/${'.'.repeat(990)}a${')'.repeat(990)} `;
    addresses.push(`${slow.repeat(32)}end`, `**b** ${'//a.b/'.repeat(10_000)} end`);
    await context.store.transact((tx) => {
      for (const body of addresses) ids.push(putMail(tx, context, { subject: 'address', body }));
      return undefined;
    });
    const window = await MailWindow.entered(suite, mail);
    const { page } = window;
    for (const id of ids) {
      await page.evaluate(`location.hash = '#/messages/${id}'`);
      await page.locator(`article .body`, { hasText: /end\s*$/ }).waitFor();
    }
    expect(await window.unsound()).toEqual([]);
  });
});

describe('a body', () => {
  test('of Markdown is formatted, light and dark, wide and narrow; code keeps its lines; raw on demand', async () => {
    const mail = await mailPage({ pageFolder: suite.pageFolder });
    await writeToOwner(mail.context, 'alice', { subject: 'report', body: MARKDOWN });
    const window = await MailWindow.entered(suite, mail, { permissions: ['clipboard-read', 'clipboard-write'] });
    const { page } = window;
    await page.getByRole('link', { name: /report/ }).click();
    await page.getByRole('heading', { level: 3, name: 'Build' }).waitFor();
    const body = page.locator('.formatted');
    await body.getByRole('listitem').first().getByText('one & two, → and &nosuchname;').waitFor();
    await body.getByRole('cell', { name: '4 min' }).waitFor();
    expect(await body.getByRole('link', { name: 'the log' }).getAttribute('rel')).toBe('noopener noreferrer');
    expect(await body.locator('.link-target').allTextContents()).toEqual(['(https://ci.example/4711)']);
    expect(await body.locator('.diff-added').allTextContents()).toEqual([`+${CODE} // and more\n`]);
    expect(await body.locator('.diff-removed').allTextContents()).toEqual([`-${CODE}\n`]);

    for (const [width, colorScheme] of [
      [1280, 'light'],
      [390, 'dark'],
    ] as const) {
      await page.setViewportSize({ width, height: 844 });
      await page.emulateMedia({ colorScheme });
      expect(await window.unsound()).toEqual([]);
      expect(await window.violations()).toEqual([]);
    }
    await page.setViewportSize({ width: 1440, height: 844 });
    const longest = await page.evaluate<number>(`(() => {
      const [text] = [...document.querySelectorAll('.formatted > p')].at(-1).childNodes;
      const range = document.createRange();
      const lines = new Map();
      for (let at = 0; at < text.length; at++) {
        range.setStart(text, at);
        range.setEnd(text, at + 1);
        const { top } = range.getBoundingClientRect();
        lines.set(top, (lines.get(top) ?? 0) + 1);
      }
      return Math.max(...lines.values());
    })()`);
    expect(longest).toBeLessThanOrEqual(80);
    await page.setViewportSize({ width: 390, height: 844 });
    await page.getByRole('region', { name: 'Code, diff' }).waitFor();
    const [lines, isWider] = await page.evaluate<[number, boolean]>(`(() => {
      const code = document.querySelector('.code pre');
      const height = parseFloat(getComputedStyle(code.firstChild).lineHeight);
      return [Math.round(code.firstChild.clientHeight / height), code.scrollWidth > code.clientWidth];
    })()`);
    expect([lines, isWider]).toEqual([DIFF.split('\n').length, true]);
    await page.getByRole('button', { name: 'Copy' }).click();
    await page.getByText('Copied.').waitFor();
    expect(await page.evaluate('navigator.clipboard.readText()')).toBe(DIFF);

    await page.locator('article').focus();
    await page.keyboard.press('w');
    await expect.poll(() => page.locator('.as-written').textContent()).toBe(MARKDOWN);
    expect(await page.getByRole('button', { name: 'As written' }).getAttribute('aria-pressed')).toBe('true');
    expect(await window.unsound()).toEqual([]);
  });

  test('of plain text is monospaced, with the links that stand in it', async () => {
    const mail = await mailPage({ pageFolder: suite.pageFolder });
    const lookAlike = 'https://\u0430pple.example/';
    const text =
      'Look:\n\tat (https://a.example/b_(c)), or http://d.example.\n' +
      `ftp://e.example https://x@y.example ${lookAlike}`;
    await writeToOwner(mail.context, 'alice', { subject: 'plain', body: text });
    const window = await MailWindow.entered(suite, mail);
    const { page } = window;
    await page.getByRole('link', { name: /plain/ }).click();
    const body = page.locator('.body');
    await expect.poll(() => body.textContent()).toBe(`${text} (https://xn--pple-43d.example/)`);
    expect(await page.evaluate(`getComputedStyle(document.querySelector('.body')).fontFamily`)).toContain('monospace');
    expect(await page.getByRole('button', { name: 'As written' }).count()).toBe(0);
    const hrefs = await body.getByRole('link').evaluateAll((all) => all.map((one) => one.getAttribute('href')));
    expect(hrefs).toEqual(['https://a.example/b_(c)', 'http://d.example/', 'https://xn--pple-43d.example/']);
  });

  test('that is a diff is one, and one that is too long is shown as written', async () => {
    const mail = await mailPage({ pageFolder: suite.pageFolder });
    const { context } = mail;
    const long = `# Title\n\n${'A **long** line.\n'.repeat(FORMATTED_CHARACTERS_MAX / 17 + 1)}`;
    await context.store.transact((tx) => {
      putMail(tx, context, { subject: 'patch', body: `From ${'0'.repeat(40)} Mon\nSubject: mend it\n\n${DIFF}` });
      putMail(tx, context, { subject: 'long', body: long });
      return undefined;
    });
    const window = await MailWindow.entered(suite, mail);
    const { page } = window;
    await page.getByRole('link', { name: /patch/ }).click();
    await expect.poll(() => page.locator('.diff-added').count()).toBe(1);
    await page.keyboard.press('u');
    await page.getByRole('link', { name: /long/ }).click();
    await page.getByRole('button', { name: /Show more of/ }).click();
    await page.getByText('A long message: it is shown as it was written.').waitFor();
    await expect.poll(async () => (await page.locator('.as-written').textContent())?.length).toBe(long.length);
  });
});
