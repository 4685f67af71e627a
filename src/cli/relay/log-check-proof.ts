/** `poste relay log check-proof`: verifies offline what a relay proved of its log. */
import type { Command } from 'commander';
import { jsonIn } from '../../protocol/json.ts';
import { displayFingerprint } from '../../protocol/public-key.ts';
import { CommandDraft } from '../lib/command-draft.ts';
import type { CommandContext } from '../lib/context.ts';
import { CommandFailed } from '../lib/exit.ts';
import { formatLines, JSON_FLAG } from '../lib/format.ts';
import { print } from '../lib/output.ts';
import { oneMore, relayKey, withoutUndefined } from '../lib/values.ts';
import { givenText, nameOf } from '../lib/input.ts';
import { checkProofs } from '../../relay/replay/proof-check.ts';

const EXAMPLES = `
A proof is an answer of GET /v2/relay/log/proof, /link or /consistency; a checkpoint is an answer of GET
/v2/relay/log/checkpoint; an accept receipt is a result of a push, its member accept, or the acceptance of poste trace
--json. Where the relay signed it together with others, tree and tree_sig of the answer belong into the result. A
receipt whose targets were accepted at different times needs a proof of each; one of a push that was repeated after a
key was rotated needs the rotation, as it was posted.

Examples:
  $ poste relay log check-proof proof.json --relay-key SHA256:... --accept result.json
  $ poste relay log check-proof proof.json --relay-key SHA256:... --accept repeated.json --rotation rotation.json
  $ poste relay log check-proof consistency.json --relay-key SHA256:... --old before.txt --new after.txt
  $ poste relay log check-proof link.json --relay-key SHA256:... --old last-of-the-epoch-before.txt`;

export function checkProofCommand(context: CommandContext): Command {
  return new CommandDraft(context, 'check-proof')
    .argument('<file...>', 'proofs as they were served, - for standard input')
    .option('--relay-key <key>', 'the base64 key or the SHA256: fingerprint of the relay that is trusted', relayKey)
    .option('--accept <file>', 'the accept receipt that the proofs are to show')
    .option('--rotation <file>', 'a rotation between keys of the record and of the receipt; may be repeated', oneMore)
    .option('--old <file>', 'the older checkpoint')
    .option('--new <file>', 'the newer checkpoint')
    .option(...JSON_FLAG)
    .notes(EXAMPLES)
    .action(async (files, { accept, rotation = [], old, new: newer, relayKey: key, json = false }) => {
      const proofs: unknown[] = [];
      for (const file of files) proofs.push(await jsonOf(context, file));
      const rotations = await Promise.all(rotation.map((file) => jsonOf(context, file)));
      const documents = withoutUndefined({
        accept: accept === undefined ? undefined : await jsonOf(context, accept),
        rotations: rotations.length === 0 ? undefined : rotations,
        old: old === undefined ? undefined : await textOf(context, old),
        new: newer === undefined ? undefined : await textOf(context, newer),
        relayKey: key,
      });
      const { relayPubkey, isPinned: pinned, verified } = checkProofs({ proofs, ...documents });
      const fingerprint = displayFingerprint(relayPubkey);
      print(context, { json }, { relay_pubkey: relayPubkey, fingerprint, pinned, verified }, () =>
        formatLines(verified.map(({ sentence }) => sentence)),
      );
      if (!json && !pinned)
        context.stderr.write(`poste: compare ${fingerprint} with the relay that you trust, or give --relay-key.\n`);
    });
}

async function jsonOf(context: CommandContext, file: string): Promise<unknown> {
  const document = jsonIn(await textOf(context, file));
  if (document !== undefined) return document;
  const message = `${nameOf(file)} holds no JSON: give the document as the relay served it`;
  throw new CommandFailed('failure', 'NOT_VERIFIED', message);
}

function textOf(context: CommandContext, file: string): Promise<string> {
  return givenText(context, file, { code: 'NO_FILE', advice: 'name a file that you can read' });
}
