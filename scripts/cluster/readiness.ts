/** Asks what a relay says at `/readyz` of its operator's listener. */

export type Readiness = { type: 'leads' } | { type: 'refuses'; why: string } | { type: 'silent' };

const ANSWERED_WITHIN_MS = 1_000;

export async function readiness(port: number): Promise<Readiness> {
  try {
    const signal = AbortSignal.timeout(ANSWERED_WITHIN_MS);
    const answer = await fetch(`http://127.0.0.1:${port}/readyz`, { signal, headers: { connection: 'close' } });
    const document = (await answer.json()) as { detail?: string };
    return answer.status === 200 ? { type: 'leads' } : { type: 'refuses', why: document.detail ?? 'not ready' };
  } catch {
    return { type: 'silent' };
  }
}
