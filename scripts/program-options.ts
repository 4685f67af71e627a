/**
 * How `poste` is bundled. Every command is a process of its own, and a start that looks up and reads a file for each of a
 * thousand modules takes a second; from the bundle it takes a fifth of one. A command is still loaded only when it is
 * called: what `import()` names is a file of its own.
 */
import { fileURLToPath } from 'node:url';
import type { BuildOptions, Plugin } from 'esbuild';

export const SOURCES = fileURLToPath(new URL('../src/', import.meta.url));

/** These find native parts or workers beside themselves, so they stay where npm put them. */
const BESIDE = ['classic-level', 'level', 'msgpackr', 'pino', 'prom-client', 'uws-compat', 'uws-current'];

/** What a hook runs is one file of its own: it is called at every prompt, and each further file costs a millisecond or two. */
const HOOK = 'run-as-hook';
const hookApart: Plugin = {
  name: 'hook-apart',
  setup(building) {
    building.onResolve({ filter: new RegExp(`/${HOOK}\\.ts$`) }, ({ kind }) =>
      kind === 'dynamic-import' ? { path: `./${HOOK}.js`, external: true } : undefined,
    );
  },
};

/**
 * Parts of Node.js are asked for by a function, and left out where nothing of them is used. An `import` of one reads each of
 * its members once, and some are made when they are read: `node:fs` loads its streams then, and `node:process` opens
 * standard input. That takes longer than the call of a hook.
 */
const builtinsAsNeeded: Plugin = {
  name: 'builtins-as-needed',
  setup(building) {
    building.onResolve({ filter: /^node:/ }, ({ path }) => ({ path, namespace: 'builtin', sideEffects: false }));
    building.onLoad({ filter: /^/, namespace: 'builtin' }, ({ path }) => ({
      contents: `module.exports = process.getBuiltinModule(${JSON.stringify(path)});`,
    }));
  },
};

/** The hook, and everything else, into the folder `dist`. */
export function programOptions(dist: string): BuildOptions[] {
  const shared: BuildOptions = {
    bundle: true,
    format: 'esm',
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
  return [
    {
      ...shared,
      entryPoints: [`${SOURCES}cli/mail/${HOOK}.ts`],
      outfile: `${dist}cli/${HOOK}.js`,
      plugins: [builtinsAsNeeded],
    },
    {
      ...shared,
      entryPoints: [
        { in: `${SOURCES}cli/main.ts`, out: 'cli/main' },
        // A thread, which helper.ts finds beside itself.
        { in: `${SOURCES}relay/replay/audit-worker.ts`, out: 'cli/audit-worker' },
        // Others, of served-check.ts, signature-thread.ts and wire-thread.ts.
        { in: `${SOURCES}relay/replay/served-worker.ts`, out: 'cli/served-worker' },
        { in: `${SOURCES}relay/auth/signature-worker.ts`, out: 'cli/signature-worker' },
        { in: `${SOURCES}relay/store/wire-worker.ts`, out: 'cli/wire-worker' },
      ],
      outdir: dist,
      // Beside main.js: what a module finds by its own place is found from every file.
      chunkNames: 'cli/[name]-[hash]',
      splitting: true,
      plugins: [hookApart],
      // Libraries that are CommonJS ask for the parts of Node.js in their way. What that takes is made at the first call.
      banner: {
        js: "const require = (name) => process.getBuiltinModule('node:module').createRequire(import.meta.url)(name);",
      },
    },
  ];
}
