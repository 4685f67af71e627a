/** Makes what a relay asks of a witness, what the witness answers, and the cosigned checkpoints that come of it. */
import { addCheckpointBody, cosignatureLine, witnessKeyText } from '../../src/protocol/cosignature.ts';
import { signatureLine } from '../../src/protocol/checkpoint.ts';
import { consistencyProof } from '../../src/protocol/merkle.ts';
import { noteBytes } from '../../src/protocol/seen.ts';
import { type Tree, checkpoint, inclusionOf, logOfVectors, readerOf } from './log-proof.ts';
import { AT, type Party, keysOf, relay, secondWitness, witness } from './parties.ts';

const AT_S = AT / 1000;

function witnessOf({ host, ...party }: Party): object {
  const vkey = witnessKeyText({ name: host, publicKey: party.signer.publicKey });
  return { name: host, ...keysOf({ host, ...party }), vkey };
}

interface Asked {
  tree: Tree;
  old: number;
  size?: number;
  /** The time of the cosignature; absent where there is none. */
  time?: number;
  answer?: object;
}

/** One request of add-checkpoint; with the checkpoint as it is cosigned, where it is. */
function askedCase(name: string, { tree, old, size = tree.leaves.length, time, answer }: Asked): object {
  const note = checkpoint(tree, size);
  const proof = old === 0 || old > size ? [] : consistencyProof(old, size, readerOf(tree));
  const line = time === undefined ? '' : `${cosignatureLine(note, witness.host, witness.signer, time)}\n`;
  return {
    name,
    request: { path: '/add-checkpoint', body: addCheckpointBody({ old, proof, note }) },
    response: answer ?? { status: 200, body: line },
    ...(time !== undefined && { time, cosigned: `${note}${line}` }),
  };
}

/** A note with lines that are no cosignature of the first witness. */
function refusedCase(name: string, tree: Tree, ...lines: string[]): object {
  return { name, refused: `${checkpoint(tree)}${lines.join('\n')}\n` };
}

/** Another history of the epoch, from its last leaf on. */
function forked({ epoch, leaves }: Tree): Tree {
  return { epoch, leaves: leaves.with(leaves.length - 1, Buffer.from('another leaf')) };
}

export function cosignatureVectors() {
  const { first, second } = logOfVectors();
  const { length: size } = first.leaves;
  const last = checkpoint(first);
  const [own, other] = [witness, secondWitness].map(({ host, signer }) =>
    cosignatureLine(last, host, signer, AT_S),
  ) as [string, string];
  const postQuantum = signatureLine(witness.host, Buffer.from('a5a5a5a5', 'hex'), Buffer.alloc(72, 0xa5));
  const unchained = Buffer.alloc(32);
  const link = (note: string): object => inclusionOf(second, 0, second.leaves.length, note);
  return {
    description: [
      'What a relay asks of a witness, and cosigned checkpoints (c2sp.org/tlog-witness, c2sp.org/tlog-cosignature).',
      'The log is that of log-proof.json. The cases with a "request" are one conversation with the first witness, in',
      'their order, from before it knew anything: "path" and "body" of a POST, and the status and body of the answer;',
      '"time" is what the cosignature says, in seconds. "cosigned" is the checkpoint with its cosignatures, by the',
      'witnesses that "by" names, or by the first alone. Those in "refused" have none of the first witness.',
      'A "vkey" is the name, the key id in hex, and the base64 of 0x04 and the key.',
    ],
    relay: keysOf(relay),
    witnesses: [witness, secondWitness].map(witnessOf),
    cases: [
      askedCase('a first checkpoint', { tree: first, old: 0, size: 3, time: AT_S }),
      askedCase('the log has grown from three to seven leaves', { tree: first, old: 3, time: AT_S + 60 }),
      askedCase('the log has not grown: a later time', { tree: first, old: size, time: AT_S + 1860 }),
      askedCase('the witness knows more than the relay says', {
        tree: first,
        old: 3,
        answer: { status: 409, type: 'text/x.tlog.size', body: `${size}\n` },
      }),
      askedCase('another history of the same size', { tree: forked(first), old: size, answer: { status: 422 } }),
      askedCase('a checkpoint of an epoch that is not open', { tree: second, old: 0, answer: { status: 404 } }),
      {
        name: 'an epoch whose link the relay did not sign after the newest note',
        request: {
          path: '/add-epoch',
          body: JSON.stringify(link(checkpoint(second, second.leaves.length, unchained))),
        },
        response: { status: 404 },
      },
      {
        name: 'the next epoch is opened',
        request: {
          path: '/add-epoch',
          body: JSON.stringify(link(checkpoint(second, second.leaves.length, noteBytes(last)))),
        },
        response: { status: 200 },
      },
      askedCase('a checkpoint of the epoch that is open now', {
        tree: second,
        old: second.leaves.length,
        time: AT_S + 1920,
      }),
      askedCase('the epoch before is never cosigned again', { tree: first, old: size, answer: { status: 404 } }),
      {
        name: 'cosigned by two witnesses, with a line of a kind that nobody here knows between them',
        time: AT_S,
        by: [witness.host, secondWitness.host],
        cosigned: `${last}${[own, postQuantum, other].join('\n')}\n`,
      },
      refusedCase('a checkpoint that another witness cosigned alone', first, other),
      refusedCase('the time is another than the signed one', first, withTime(own, AT_S + 1)),
      refusedCase(
        'the line of another checkpoint',
        first,
        cosignatureLine(checkpoint(first, 3), witness.host, witness.signer, AT_S),
      ),
    ],
  };
}

/** The line with another time behind its key id than the one that was signed. */
function withTime(line: string, timeS: number): string {
  const bytes = Buffer.from(line.split(' ').at(-1) ?? '', 'base64');
  bytes.writeBigUInt64BE(BigInt(timeS), 4);
  return signatureLine(witness.host, bytes.subarray(0, 4), bytes.subarray(4));
}
