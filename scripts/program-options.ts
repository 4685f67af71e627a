/**
 * Says how `poste` is bundled. Every command is a process of its own, and a start that looks up and reads a file for
 * each of a thousand modules takes a second; from the bundle it takes a fifth of one. A command is still loaded only
 * when it is called: what `import()` names is a file of its own.
 *
 *     dist/cli/main.js           CommonJS: the start, `--version`, the help, hooks, and what a client of `poste mcp`
 *                                begins with. An ES module takes a fifth longer
 *     dist/program/client.cjs    CommonJS: the command line, with the commands that only ask the daemon
 *     dist/program/mcp.cjs       CommonJS: the mail tools of `poste mcp`
 *     dist/program/run.js        ES modules: the command line and everything behind it, with the workers
 */
import { writeFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { type BuildOptions, type Plugin, build } from 'esbuild';
import { LARGE_COMMANDS } from '../src/cli/large-commands.ts';

export const SOURCES = fileURLToPath(new URL('../src/', import.meta.url));

/** These find native parts or workers beside themselves, so they stay where npm put them. */
const BESIDE = ['classic-level', 'level', 'msgpackr', 'pino', 'prom-client', 'uws-compat', 'uws-current'];

const START = `${SOURCES}cli/main.ts`;

/** The bundles that others load when they need them, by the module that is their entry. */
const BUNDLES: Readonly<Record<string, string>> = { './client.ts': 'client.cjs', './serve-mail-tools.ts': 'mcp.cjs' };

/**
 * Leaves other bundles out of one that finds them in `folder`. CommonJS asks for them by `require`: an `import()` loads
 * what Node.js has for ES modules, which takes longer.
 */
function bundlesApart(folder: './' | '../program/', format: 'cjs' | 'esm'): Plugin {
  return {
    name: 'bundles-apart',
    setup(building) {
      building.onResolve({ filter: /^\.\/run\.ts$/ }, ({ importer }) =>
        importer === START ? { path: `${folder}run.js`, external: true } : undefined,
      );
      building.onResolve({ filter: /^\.\// }, ({ path, kind }) => {
        const bundle = kind === 'dynamic-import' ? BUNDLES[path] : undefined;
        if (bundle === undefined) return undefined;
        return { path: `${folder}${bundle}`, ...(format === 'esm' ? { external: true } : { namespace: 'required' }) };
      });
      building.onLoad({ filter: /^/, namespace: 'required' }, ({ path }) => ({
        contents: `module.exports = require('${path}');`,
      }));
      building.onResolve({ filter: /^/, namespace: 'required' }, ({ path }) => ({ path, external: true }));
    },
  };
}

/** No value is held to a schema that a client gives, so the library for that is left out: a third of the file. */
const noValidator: Plugin = {
  name: 'no-validator',
  setup(building) {
    building.onResolve({ filter: /^@modelcontextprotocol\/server\/_shims$/ }, ({ path }) => ({
      path,
      namespace: 'no-validator',
    }));
    building.onLoad({ filter: /^/, namespace: 'no-validator' }, () => ({
      contents: 'const own = process; export { own as process }; export const DefaultJsonSchemaValidator = undefined;',
    }));
  },
};

/** Leaves the modules of `LARGE_COMMANDS` out of the small file, which is not asked for those. */
const largeCommandsApart: Plugin = {
  name: 'large-commands-apart',
  setup(building) {
    const modules = Object.values(LARGE_COMMANDS).flat();
    building.onResolve({ filter: /^\.\// }, ({ path, kind }) =>
      kind === 'dynamic-import' && modules.some((one) => path.startsWith(one)) ? { path, external: true } : undefined,
    );
  },
};

/**
 * Parts of Node.js are asked for by a function, and left out where nothing of them is used. An `import` of one reads
 * each of its members once, and some are made when they are read: `node:fs` loads its streams then, and `node:process`
 * opens standard input. That takes longer than the call of a hook.
 */
const builtinsAsNeeded: Plugin = {
  name: 'builtins-as-needed',
  setup(building) {
    building.onResolve({ filter: /^node:/ }, ({ path, kind }) => {
      if (kind === 'require-call') return { path, external: true };
      return { path, namespace: kind === 'dynamic-import' ? 'whole-builtin' : 'builtin', sideEffects: false };
    });
    // What `import()` gives has all members, and each version of Node.js has others: they are not listed.
    building.onLoad({ filter: /^/, namespace: 'whole-builtin' }, ({ path }) => ({
      contents: `module.exports = process.getBuiltinModule('${path}');`,
    }));
    building.onLoad({ filter: /^/, namespace: 'builtin' }, ({ path }) => {
      // What is marked as pure is left out where nothing uses it.
      const members = Object.keys(process.getBuiltinModule(path) ?? {}).filter((name) => /^[A-Za-z]\w*$/.test(name));
      const lines = members.map((name) => `const $${name} = /* @__PURE__ */ member('${name}');`);
      const part = `const part = /* @__PURE__ */ process.getBuiltinModule('${path}'), member = (name) => part[name];`;
      const exported = members.map((name) => `$${name} as ${name}`).join(', ');
      return { contents: [part, ...lines, `export { ${exported} };`].join('\n') };
    });
  },
};

/** Few commands call this library, and loading it takes longer than a command: it is loaded at the first call. */
const madeWhenCalled: Plugin = {
  name: 'made-when-called',
  setup(building) {
    building.onResolve({ filter: /^string-width$/ }, ({ path, kind }) =>
      kind === 'import-statement' ? { path, namespace: 'when-called' } : undefined,
    );
    building.onLoad({ filter: /^/, namespace: 'when-called' }, ({ path }) => ({
      contents: `let made; export default (text) => (made ??= require('${path}').default)(text);`,
      resolveDir: SOURCES,
    }));
  },
};

const SHARED: BuildOptions = {
  bundle: true,
  platform: 'node',
  target: 'node20.19',
  external: BESIDE,
  // Its first entry is UMD, whose parts a bundler does not find.
  alias: { 'jsonc-parser': 'jsonc-parser/lib/esm/main.js' },
  sourcemap: true,
  sourcesContent: false,
  legalComments: 'linked',
  logLevel: 'warning',
};

/** One file, since each further one costs a millisecond or two. */
const ONE_FILE: BuildOptions = {
  ...SHARED,
  format: 'cjs',
  // For `createRequire` a path is as good.
  define: { 'import.meta.dirname': '__dirname', 'import.meta.url': '__filename' },
  // Half the bytes to read at each start; names stay, for stacks.
  minifyWhitespace: true,
  minifySyntax: true,
};

/** A hook is called at every prompt, so it needs no other file. */
export const START_OPTIONS: BuildOptions = {
  ...ONE_FILE,
  entryPoints: [START],
  plugins: [bundlesApart('../program/', 'cjs'), builtinsAsNeeded],
};

export const CLIENT_OPTIONS: BuildOptions = {
  ...ONE_FILE,
  entryPoints: [`${SOURCES}cli/client.ts`],
  plugins: [bundlesApart('./', 'cjs'), largeCommandsApart, madeWhenCalled, builtinsAsNeeded],
};

const MCP_OPTIONS: BuildOptions = {
  ...ONE_FILE,
  entryPoints: [`${SOURCES}cli/mail/serve-mail-tools.ts`],
  plugins: [noValidator, builtinsAsNeeded],
};

const PROGRAM_OPTIONS: BuildOptions = {
  ...SHARED,
  format: 'esm',
  plugins: [bundlesApart('./', 'esm'), madeWhenCalled],
  entryPoints: [
    `${SOURCES}cli/run.ts`,
    // Threads, which the files that start them find beside themselves.
    `${SOURCES}relay/replay/audit-worker.ts`,
    `${SOURCES}relay/auth/signature-worker.ts`,
    `${SOURCES}relay/store/wire-worker.ts`,
  ],
  // A third fewer bytes to install and to read; names stay, and lines, for stacks.
  minifyWhitespace: true,
  minifySyntax: true,
  lineLimit: 160,
  // All in one folder: what a module finds by its own place is found from every file.
  entryNames: '[name]',
  chunkNames: '[name]-[hash]',
  splitting: true,
  // Libraries that are CommonJS ask for the parts of Node.js in their way. What that takes is made at the first call.
  banner: {
    js: "const require = (name) => process.getBuiltinModule('node:module').createRequire(import.meta.url)(name);",
  },
};

/** Writes `poste` into the folder `dist`. `changed` is built beside the usual plugins, and without maps. */
export async function buildProgram(dist: string, changed?: Plugin): Promise<void> {
  const changes = (plugins: Plugin[] = []): BuildOptions =>
    changed ? { sourcemap: false, plugins: [...plugins, changed] } : { plugins };
  await build({ ...START_OPTIONS, outfile: `${dist}cli/main.js`, ...changes(START_OPTIONS.plugins) });
  // The package is one of ES modules.
  await writeFile(`${dist}cli/package.json`, '{"type":"commonjs"}\n');
  await build({ ...CLIENT_OPTIONS, outfile: `${dist}program/client.cjs`, ...changes(CLIENT_OPTIONS.plugins) });
  await build({ ...MCP_OPTIONS, outfile: `${dist}program/mcp.cjs`, ...changes(MCP_OPTIONS.plugins) });
  await build({ ...PROGRAM_OPTIONS, outdir: `${dist}program`, ...changes(PROGRAM_OPTIONS.plugins) });
}
