/** `poste relay witness`: cosigns the checkpoints of relays, until a signal stops it. */
import { resolve } from 'node:path';
import { setTimeout as elapsed } from 'node:timers/promises';
import { type Command, InvalidArgumentError } from 'commander';
import { hostConnections } from '../../relay/serve/connection-limits.ts';
import { listenToHosts } from '../../relay/serve/hosts-listener.ts';
import { createRelayKey, readRelayKey } from '../../relay/store/relay-key.ts';
import { makeFolder } from '../../relay/store/refused.ts';
import { StoreFailed } from '../../relay/engine/committer.ts';
import { Witness } from '../../relay/witness/witness.ts';
import { witnessPipeline } from '../../relay/witness/witness-server.ts';
import { WitnessStore } from '../../relay/witness/witness-store.ts';
import { listenNode } from '../../http/server-node.ts';
import { systemClock, systemRandom, systemTimers } from '../../lib/clock.ts';
import { listenAddressText } from '../../lib/listen-address.ts';
import { softwareVersion } from '../../lib/package-root.ts';
import { Services } from '../../lib/services.ts';
import { isAcceptablePoint } from '../../protocol/acceptable-point.ts';
import { isWitnessName, witnessKeyText } from '../../protocol/cosignature.ts';
import { displayFingerprint, hostFingerprint, parsePublicKey, type PublicKey } from '../../protocol/public-key.ts';
import { CommandDraft, type FlagsOf } from '../lib/command-draft.ts';
import type { CommandContext } from '../lib/context.ts';
import { stopSignal } from '../lib/exit.ts';
import { formatFields, JSON_FLAG, jsonLine } from '../lib/format.ts';
import { commandLog, endLog } from '../lib/log.ts';
import { announce } from '../lib/output.ts';
import { must } from '../lib/values.ts';
import { optionOf, type ServeFlags } from './settings.ts';
import { tlsFiles } from './serve-settings.ts';
import { listenAddress } from './values.ts';

const CONNECTIONS = { max: 512, perAddressMax: 64 };
/** Requests get this long to finish at the end. */
const DRAIN_MS = 3000;
const KEY_FILE = 'witness.key';
const LISTEN_DEFAULT = '127.0.0.1:8789';

const NOTES = `
Run it on another machine than the relays, under another operator. It keeps its key and the newest checkpoints of each
relay in its folder: never put an older copy of that folder back, as it would cosign what contradicts what it
cosigned before. The key that it prints verifies its cosignatures.

Examples:
  $ poste relay witness --relay-key 'iojj3XQJ8ZX9UtstPLpdcspnCb8dlBIb83SIAbQPb1w='
  $ poste relay witness --store-dir /var/lib/poste-witness --name witness.example/w1 --listen 0.0.0.0:8789 \\
      --tls-cert cert.pem --tls-key key.pem \\
      --relay-key 'iojj3XQJ8ZX9UtstPLpdcspnCb8dlBIb83SIAbQPb1w='`;

export function witnessCommand(context: CommandContext): Command {
  return draft(context)
    .notes(NOTES)
    .action((flags) => serve(context, flags));
}

function draft(context: CommandContext) {
  const relay = 'the base64 public key of a relay; may be repeated';
  const name = "the name in its cosignatures (default: made of the key's fingerprint)";
  const byDefault = { byDefault: listenAddress(LISTEN_DEFAULT), defaultText: LISTEN_DEFAULT };
  return new CommandDraft(context, 'witness')
    .option('--relay-key <key>', relay, { parse: oneMoreKey, isNeeded: true })
    .option('--store-dir <dir>', 'where the notes and witness.key lie', { byDefault: './poste-witness' })
    .option('--name <name>', name, witnessName)
    .option('--listen <host:port>', 'where relays connect', { parse: listenAddress, ...byDefault })
    .takes<Pick<ServeFlags, SharedName>>(...SHARED.map(optionOf))
    .option(...JSON_FLAG);
}

/** A relay has these options too. */
const SHARED = ['tlsCert', 'tlsKey', 'logLevel', 'logFormat'] as const;
type SharedName = (typeof SHARED)[number];
type WitnessFlags = FlagsOf<typeof draft>;

async function serve(context: CommandContext, flags: WitnessFlags): Promise<void> {
  const { relayKey: relays, listen, logLevel, logFormat, json } = flags;
  const folder = resolve(flags.storeDir);
  const log = commandLog(context, logLevel, logFormat);
  const signalled = stopSignal(context);
  const tls = tlsFiles(flags);
  const services = new Services();
  try {
    await makeFolder(folder);
    const store = await WitnessStore.open(folder);
    services.add('store', { stop: () => store.close() });
    const signer = (await readRelayKey(folder, KEY_FILE)) ?? (await createRelayKey(folder, KEY_FILE));
    const name = flags.name ?? `poste-witness/${hostFingerprint(signer.publicKey)}`;
    const witness = new Witness({
      store,
      name,
      signer,
      relays,
      nowMs: () => systemClock.nowMs(),
      onContradiction: (relay, notes) =>
        log.error({ relay, notes }, 'a relay signed two histories of one epoch: these notes prove it'),
    });
    const pipeline = witnessPipeline({
      witness,
      clock: systemClock,
      timers: systemTimers,
      randomBytes: systemRandom,
      log,
    });
    const server = await listenToHosts({
      relay: { listen, timers: systemTimers, log, ...(tls && { tls }) },
      services,
      handler: pipeline.handle,
      connections: hostConnections({
        limits: CONNECTIONS,
        trustProxy: 'none',
        monotonicMs: () => systemClock.monotonicMs(),
        displaced: () => undefined,
        flooded: (told) => log.warn(told, 'idle connections are closed for new ones'),
      }),
      listenHere: listenNode,
    });
    services.add('listener', {
      drain: () => {
        server.stopAccepting();
        return pipeline.drain();
      },
      stop: () => server.close(),
    });
    const url = `${tls ? 'https' : 'http'}://${listenAddressText({ host: listen.host, port: server.port })}`;
    const start = { url, witness_key: witnessKeyText({ name, publicKey: signer.publicKey }), store: folder };
    const document = { ...start, relays, pid: process.pid };
    announce(context, json ? jsonLine(document) : startText(start, relays));
    const ended = await Promise.race([signalled, store.failed.then((cause) => ({ cause }))]);
    await Promise.race([services.drain(), elapsed(DRAIN_MS, undefined, { ref: false })]);
    if (typeof ended !== 'string') throw new StoreFailed(ended.cause);
    log.info({ signal: ended }, 'stopping');
  } finally {
    await services.stop();
  }
  endLog(context);
}

function startText({ url, witness_key: key, store }: Record<string, string>, relays: readonly PublicKey[]): string {
  const rows = [
    ['address', url ?? ''],
    ['key', key ?? ''],
    ['store', store ?? ''],
    ...relays.map((relay) => ['relay', displayFingerprint(relay)]),
  ];
  return `Poste witness ${softwareVersion()} is ready.\n${formatFields(rows, 12)}`;
}

function witnessName(text: string): string {
  must(isWitnessName(text), 'It must be 1 to 100 characters without a space, a plus or a control character.');
  return text;
}

function oneMoreKey(text: string, keys: readonly PublicKey[] = []): readonly PublicKey[] {
  const key = parsePublicKey(text);
  if (key && isAcceptablePoint(key)) return [...keys, key];
  throw new InvalidArgumentError("It must be a relay's public key in base64, which poste relay serve --json prints.");
}
