import { describe, expect, test } from 'vitest';
import { mailToolsOf } from '../../../../src/host/hooks/mcp-settings.ts';
import { SETTINGS_OF, SETTLED_PROGRAMS } from '../../../../src/host/hooks/settled-programs.ts';
import { TOOLS } from '../../../../src/host/mcp/tools.ts';
import { SettingsRefused } from '../../../../src/host/hooks/settings-text.ts';

const SERVER = {
  command: '/usr/bin/node',
  args: ['/opt/"p"/main.js', 'mcp', '--agent', 'x'],
  env: { POSTE_HOME: '/h' },
};

const THEIRS = {
  'claude-code': '{\n  "projects": {},\n  "mcpServers": {\n    "other": {\n      "command": "o"\n    }\n  }\n}\n',
  codex: '# mine\nmodel = "o" # best\n\n[mcp_servers.other]\ncommand = "o"\n\n[features]\nhooks = true\n',
  gemini: '{\n\t"theme": "dark"\n}\n',
  qwen: '{\n  "$version": 6 // theirs\n}\n',
  opencode: '{\n  "$schema": "https://opencode.ai/config.json"\n}\n',
  copilot: '{"mcpServers":{"other":{"command":"o","args":[]}}}\n',
  cline:
    '{\n  "mcpServers": {\n    "other": {\n      "transport": { "type": "stdio", "command": "o" }\n    }\n  }\n}\n',
  crush: '{\n  "permissions": {\n    "allowed_tools": ["view"]\n  }\n}\n',
};

describe.each(SETTLED_PROGRAMS)('the MCP server in %s', (program) => {
  const add = SETTINGS_OF[program].addServer(SERVER);
  const remove = SETTINGS_OF[program].removeServer(SERVER);

  test('is added once, and removed to the byte', () => {
    const after = add(THEIRS[program]) ?? '';
    expect(after).toContain('/usr/bin/node');
    expect(after).toContain('POSTE_HOME');
    expect(add(after)).toBe(after);
    expect(remove(after)).toBe(THEIRS[program]);
    expect(remove(THEIRS[program])).toBe(THEIRS[program]);
    expect(remove(undefined)).toBeUndefined();
    expect(add(undefined)).toContain('main.js');
  });

  test('with the flag --start, as earlier versions wrote it, is as it should be, and removed to the byte', () => {
    const before = { ...SERVER, args: [...SERVER.args, '--start'] };
    const after = SETTINGS_OF[program].addServer(before)(THEIRS[program]);
    expect(SETTINGS_OF[program].addServer(SERVER, [before])(after)).toBe(after);
    for (const one of [before, SERVER]) {
      expect(SETTINGS_OF[program].removeServer(one)(after)).toBe(THEIRS[program]);
      expect(SETTINGS_OF[program].removeServer(before)(add(THEIRS[program]))).toBe(THEIRS[program]);
    }
  });

  test('that somebody else wrote stays', () => {
    const other = SETTINGS_OF[program].addServer({ ...SERVER, args: ['other'] })(THEIRS[program]);
    expect(add(other)).toBe(other);
    expect(remove(other)).toBe(other);
  });
});

describe.each(SETTLED_PROGRAMS)('a server of another agent in %s', (program) => {
  const NEXT = { ...SERVER, args: ['/opt/"p"/main.js', 'mcp', '--agent', 'y'], env: {} };

  test('takes the place of an earlier one, whose approvals stay; one that only looks like it stays', () => {
    const allowed = SETTINGS_OF[program].tools;
    const before = SETTINGS_OF[program].addServer(SERVER)(THEIRS[program]);
    // Claude Code and Crush keep their approval apart from the server.
    const isApart = program === 'claude-code' || program === 'crush';
    const approved = isApart ? before : (allowed?.add(before) ?? before);
    const after = SETTINGS_OF[program].addServer(NEXT, [SERVER])(approved);
    expect(SETTINGS_OF[program].serverIn(after)).toEqual({ type: 'command', server: NEXT });
    expect(SETTINGS_OF[program].addServer(NEXT, [{ ...SERVER, env: {} }])(approved)).toBe(approved);
    expect(SETTINGS_OF[program].removeServer(NEXT)(after)).toBe(THEIRS[program]);
    const approval = /approve|trust/;
    expect(approval.test(after ?? '')).toBe(approval.test(approved ?? ''));
    // A line of the owner's above the command is no reason to write the file again.
    expect(SETTINGS_OF[program].addServer(NEXT, [NEXT, SERVER])(after)).toBe(after);
  });
});

test.each([
  ['claude-code', '{"mcpServers":{"poste":{"type":"http","url":"https://x"}}}', '{"type":"http","url":"https://x"}'],
  ['codex', '[mcp_servers.poste]\nurl = "https://x"\n', '{"url":"https://x"}'],
  ['opencode', '{"mcp":{"poste":{"type":"remote","url":"https://x"}}}', '{"type":"remote","url":"https://x"}'],
] as const)('a server of %s that is no command is told apart', (program, text, shown) => {
  expect(SETTINGS_OF[program].serverIn(text)).toEqual({ type: 'other', text: shown });
  expect(SETTINGS_OF[program].serverIn(undefined)).toEqual({ type: 'absent' });
});

test.each([
  [['poste', 'mcp', '--agent', 'x'], { agent: 'x', isDefault: false }],
  [['/usr/local/bin/poste', 'mcp', '--start', '--agent=y'], { agent: 'y', isDefault: false }],
  [['node', '/opt/dist/cli/main.js', 'mcp', '--agent', 'z', '--start'], { agent: 'z', isDefault: false }],
  [['poste', 'mcp', '--program', 'codex', '--default-agent', 'd', '--start'], { agent: 'of-env', isDefault: false }],
  [['poste', 'mcp'], { agent: 'of-env', isDefault: false }],
  [['other', 'mcp', '--agent', 'x'], undefined],
  [['poste', '--agent', 'x'], undefined],
])('%j starts the mail tools of %j', ([command = '', ...args], tools) => {
  expect(mailToolsOf({ command, args, env: { POSTE_AGENT: 'of-env' } })).toEqual(tools);
});

test('an agent by default is the one where the settings name no other', () => {
  const args = ['mcp', '--program', 'codex', '--default-agent', 'd'];
  expect(mailToolsOf({ command: 'poste', args, env: {} })).toEqual({ agent: 'd', isDefault: true });
});

describe.each(['claude-code', 'codex', 'gemini', 'qwen', 'crush'] as const)('the mail tools in %s', (program) => {
  test('are allowed once, and that is taken back to the byte', () => {
    const allowed = SETTINGS_OF[program].tools;
    const before =
      program === 'claude-code'
        ? '{\n  "model": "opus"\n}\n'
        : (SETTINGS_OF[program].addServer(SERVER)(THEIRS[program]) ?? '');
    const after = allowed?.add(before);
    expect(after).not.toBe(before);
    expect(allowed?.add(after)).toBe(after);
    expect(allowed?.remove(after)).toBe(before);
    expect(allowed?.remove(before)).toBe(before);
  });
});

const codex = SETTINGS_OF.codex.tools;

test.each(['opencode', 'cline', 'copilot'] as const)(
  '%s has no setting that allows the tools of a server',
  (program) => {
    expect(SETTINGS_OF[program].tools).toBeUndefined();
  },
);

test('Crush allows the tools by name: it is given every one', () => {
  const { permissions } = JSON.parse(SETTINGS_OF.crush.tools?.add('{}') ?? '') as {
    permissions: { allowed_tools: string[] };
  };
  expect(permissions.allowed_tools).toEqual(TOOLS.map(({ name }) => `mcp_poste_${name}`).toSorted());
});

test('an entry that an earlier setup wrote is completed, and what its owner set in it stays', () => {
  const settings = SETTINGS_OF['claude-code'];
  const earlier = `{"mcpServers":{"poste":${JSON.stringify({ type: 'stdio', ...SERVER })}}}`;
  const after = settings.addServer(SERVER, [SERVER])(earlier) ?? '';
  expect(JSON.parse(after)).toEqual({ mcpServers: { poste: { type: 'stdio', alwaysLoad: true, ...SERVER } } });
  const own = after.replace('"alwaysLoad":true', '"alwaysLoad":false');
  expect(settings.addServer({ ...SERVER, args: ['x'] }, [SERVER])(own)).toContain('"alwaysLoad":false');
  expect(settings.addServer(SERVER)(earlier)).toBe(earlier);
});

test('a server that cline mcp add wrote is known by its command', () => {
  const { env, ...transport } = SERVER;
  const text = JSON.stringify({ mcpServers: { poste: { transport: { type: 'stdio', ...transport } } } });
  expect(SETTINGS_OF.cline.serverIn(text)).toEqual({ type: 'command', server: { ...transport, env: {} } });
  expect(env).not.toEqual({});
});

test.each([
  ['copilot', {}, '/home/.copilot', '/home/.copilot/mcp-config.json'],
  ['copilot', { COPILOT_HOME: '/c' }, '/c', '/c/mcp-config.json'],
  ['cline', {}, '/home/.cline/data/settings', '/home/.cline/data/settings/cline_mcp_settings.json'],
  ['cline', { CLINE_DIR: '/c' }, '/c/data/settings', '/c/data/settings/cline_mcp_settings.json'],
  ['cline', { CLINE_DATA_DIR: '/d', CLINE_DIR: '/c' }, '/d/settings', '/d/settings/cline_mcp_settings.json'],
  ['cline', { CLINE_MCP_SETTINGS_PATH: '/m.json' }, '/home/.cline/data/settings', '/m.json'],
  ['crush', {}, '/home/.config/crush', '/home/.config/crush/crush.json'],
  ['crush', { XDG_CONFIG_HOME: '/x' }, '/x/crush', '/x/crush/crush.json'],
  ['crush', { CRUSH_GLOBAL_CONFIG: '/g' }, '/g', '/g/crush.json'],
  ['qwen', {}, '/home/.qwen', '/home/.qwen/settings.json'],
  ['qwen', { QWEN_HOME: '/q' }, '/q', '/q/settings.json'],
] as const)('the settings of %s with %j lie in %s', (program, variables, folder, file) => {
  const environment = { HOME: '/home', ...variables };
  const settings = SETTINGS_OF[program];
  expect(settings.settingsFolder(environment)).toBe(folder);
  expect(settings.serverFile(folder, environment, () => false)).toBe(file);
});

describe('config.toml of Codex', () => {
  test('keeps comments and layout around the line that allows the tools', () => {
    const text = '# a\n  [ mcp_servers . poste ] # mail\ncommand = "poste" # c\r\n\n[z]\na = 1\n';
    const after =
      '# a\n  [ mcp_servers . poste ] # mail\ndefault_tools_approval_mode = "approve"\n' +
      'command = "poste" # c\r\n\n[z]\na = 1\n';
    expect(codex?.add(text)).toBe(after);
    expect(codex?.remove(after)).toBe(text);
  });

  test.each(['model = "o"', 'model = "o"\r\n', '# mine\r\nmodel = "o"\r\n[z]\r\na = 1', 'model = "o"\n'])(
    'ends its lines as the text does, also the last one: %j',
    (text) => {
      const end = text.includes('\r\n') ? '\r\n' : '\n';
      const add = SETTINGS_OF.codex.addServer(SERVER);
      const after = add(text) ?? '';
      const allowed = codex?.add(after) ?? '';
      for (const now of [after, allowed]) {
        expect(now.startsWith(`${text}${text.endsWith('\n') ? '' : end}${end}[mcp_servers.poste]${end}`)).toBe(true);
        expect(now.replaceAll(end, '')).not.toMatch(/[\r\n]/);
        expect(now.endsWith(end)).toBe(text.endsWith(end));
      }
      const moved = SETTINGS_OF.codex.addServer({ ...SERVER, command: '/new/node' }, [SERVER])(after) ?? '';
      expect(moved).toBe(after.replace(SERVER.command, '/new/node'));
      expect(codex?.remove(allowed)).toBe(after);
      expect(SETTINGS_OF.codex.removeServer(SERVER)(after)).toBe(text);
    },
  );

  test.each([
    ['model = "o"\n', 'has no MCP server poste yet'],
    ['[mcp_servers.poste]\ncommand = "p"\ndefault_tools_approval_mode = "prompt"\n', 'to "prompt" already'],
    ['mcp_servers = { poste = { command = "p" } }\n', 'has no line [mcp_servers.poste]'],
    ['[mcp_servers]\nposte.command = "p"\n[a]\nb = """\n[mcp_servers.poste]\n"""\n', 'is laid out in a way'],
    ['[features\n', 'is no TOML at line 1'],
  ])('is refused when the line has no safe place: %j', (text, why) => {
    expect(() => codex?.add(text)).toThrow(SettingsRefused);
    expect(() => codex?.add(text)).toThrow(why);
  });

  test('without the server, the tables in it go too: Codex takes no server without a command', () => {
    const add = SETTINGS_OF.codex.addServer(SERVER);
    const remove = SETTINGS_OF.codex.removeServer(SERVER);
    const theirs = '# mine\nmodel = "o"\n';
    const inner =
      '\n[mcp_servers.poste.tools.mail_send]\napproval_mode = "approve"\n\n' +
      '[ mcp_servers . "poste" . tools.mail_reply ] # c\napproval_mode = "approve"\n';
    const other = '\n# theirs\n[mcp_servers.other]\ncommand = "o"\n';
    const text = `${add(theirs)}startup_timeout_sec = 20\n${inner}${other}`;
    expect(remove(text)).toBe(`${theirs}${other}`);
    const edited = text.replace('"/usr/bin/node"', '"mine"');
    expect(remove(edited)).toBe(edited);
  });

  test('its approval is taken back as the owner or Codex wrote it, or refused where it cannot be', () => {
    const text = "[mcp_servers.poste]\ncommand = 'p'\ndefault_tools_approval_mode='approve' # all\n";
    expect(codex?.remove(text)).toBe("[mcp_servers.poste]\ncommand = 'p'\n");
    const inline = 'mcp_servers = { poste = { command = "p", default_tools_approval_mode = "approve" } }\n';
    expect(() => codex?.remove(inline)).toThrow('is laid out');
  });

  test('is refused when a table of ours could not follow', () => {
    expect(() => SETTINGS_OF.codex.addServer(SERVER)('mcp_servers = { other = { command = "o" } }\n')).toThrow(
      'is laid out',
    );
  });
});

test.each([
  ['claude-code', [], 'is no JSON object'],
  ['claude-code', { permissions: [] }, 'has "permissions" that is no object'],
  ['claude-code', { permissions: { allow: 'all' } }, 'has "permissions.allow" that is no list'],
  ['gemini', {}, 'has no MCP server poste yet'],
] as const)('settings of %s of another shape are refused: %j', (program, settings, why) => {
  expect(() => SETTINGS_OF[program].tools?.add(JSON.stringify(settings))).toThrow(why);
});

test('the servers of Claude Code stand in its own folder, and those of OpenCode where its comments are', () => {
  expect(SETTINGS_OF['claude-code'].serverFile('/c', { HOME: '/home' }, () => false)).toBe('/home/.claude.json');
  expect(SETTINGS_OF['claude-code'].serverFile('/c', { CLAUDE_CONFIG_DIR: '/c' }, () => false)).toBe('/c/.claude.json');
  expect(SETTINGS_OF.opencode.serverFile('/o', {}, () => false)).toBe('/o/opencode.json');
  expect(SETTINGS_OF.opencode.serverFile('/o', {}, () => true)).toBe('/o/opencode.jsonc');
});
