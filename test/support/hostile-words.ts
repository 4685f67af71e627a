/**
 * Words of others as bad as the protocol lets them be: markup, scripts, text that turns around, emoji, and very long
 * ones.
 */

export const HOSTILE = {
  image: '<img src=x onerror="hacked()">',
  script: '</script><script>hacked()</script>',
  handler: `"' onmouseover='hacked()' autofocus onfocus='hacked()`,
  link: 'javascript:hacked()',
  template: '${hacked()} {{hacked()}} <!-- &lt;b&gt; &#x202e;',
  turned: 'safe\u202Egnp.exe\u2066 \u05E9\u05DC\u05D5\u05DD \u0645\u0631\u062D\u0628\u0627',
  emoji: '👩‍👩‍👧‍👦🏴‍☠️ e\u0301 Z\u0351\u036B\u0343a\u0334lgo',
  long: 'W'.repeat(200),
} as const;
