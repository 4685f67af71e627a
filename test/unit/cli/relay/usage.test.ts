/** Command lines of a relay that are refused before anything is done: in one sentence, and nothing is made. */
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { runHere } from '../../../support/command-run.ts';
import { EXIT, STACK } from '../../../support/relay-command.ts';
import { temporaryFolder } from '../../../support/temporary-folder.ts';

/** Words are split at spaces. */
test.each<[words: string, said: RegExp]>([
  ['', /poste relay/],
  ['serv', /Did you mean serve/],
  ['serve --lsten 127.0.0.1:1', /unknown option '--lsten'\n\(Did you mean --listen\?\)/],
  ['serve extra', /too many arguments/],
  ['serve --listen 127.0.0.1:65536', /It must be host:port/],
  ['serve --limits {"max_everything":1}', /There is no limit max_everything; there are max_item_bytes, /],
  ['serve --enrol-rate 0', /It must be a whole number, at least 1/],
  ['serve --trust-proxy nginx', /Allowed choices are xff, cloudflare/],
  ['serve --authority oidc', /Allowed choices are host-key, account-token/],
  ['serve --issuer https://accounts.example/?tenant=1', /It must be a URL without a query/],
  ['serve --jwks-url http://192.168.0.1/jwks.json', /It must be https; plain http works on this machine only/],
  ['serve --relay-url https://user:pass@mail.example', /without user or fragment/],
  ['serve --issuer https://a.example', /--issuer has no effect without --authority account-token/],
  ['serve --relay-url https://a.example', /--relay-url has no effect without --authority account-token/],
  ['serve --jwks-url https://a.example', /--jwks-url has no effect without --authority account-token/],
  ['serve --authority account-token --relay-url https://a.example', /--authority account-token needs --issuer/],
  ['serve --authority account-token --issuer https://a.example', /--authority account-token needs --relay-url/],
  ['serve --tls-cert a.crt', /--tls-cert needs --tls-key/],
  ['serve --tls-key a.key', /--tls-key needs --tls-cert/],
  [
    'serve --authority account-token --issuer https://a.example --relay-url https://a.example --admission invite',
    /proves either an account or an invite/,
  ],
  ['serve --backup-keep 3', /--backup-keep has no effect without --backup-dir/],
  ['serve --backup-every 24h', /--backup-every has no effect without --backup-dir/],
  ['serve --backup-dir /dev/null/x --backup-keep 0', /at least 1/],
  ['serve --backup-dir x --backup-every 30s', /It must be a time from 1m to 365d/],
  ['serve --log-keep-days 1.5', /whole number/],
  ['serve --log-archive-dir x', /--log-archive-dir has no effect without --log-keep-days/],
  ['serve --lease-seconds 3', /--lease-seconds has no effect without --log/],
  ['serve --accept-settings', /--accept-settings has no effect without --log/],
  ['hosts extra', /too many arguments/],
  ['hosts --live --all', /cannot be used with/],
  ['hosts --revoked --all', /cannot be used with/],
  ['hosts --nam x', /unknown option '--nam'\n\(Did you mean --name\?\)/],
  ['revoke', /missing required argument 'host'/],
  ['revoke a/b', /It must be a fingerprint, a public key or a name/],
  ['revoke SHA256:sho --yes', /It must be a fingerprint, a public key or a name/],
  ['revoke a b --yes', /too many arguments/],
  ['admit x', /too many arguments/],
  ['admit --expires 366d', /It must be a time from 1m to 365d/],
  [`admit --label ${'x'.repeat(101)}`, /at most 100 printable characters/],
  ['admit --list --expires 1d', /cannot be used with/],
  ['backup', /missing required argument 'file'/],
  ['backup a b', /too many arguments/],
  ['backup a --forc', /Did you mean --force/],
  ['restore', /missing required argument 'file'/],
  ['restore a b --yes', /too many arguments/],
  ['restore a --dry-run --yes', /cannot be used with/],
  ['rotate-epoch x', /too many arguments/],
  ['log show --type Nothing', /There is no such type; there are RelayInitialised/],
  ['log show --since yesterday', /It must be a time/],
  ['log show --from 0', /at least 1/],
  ['log show --host a/b', /fingerprint, a public key or a name/],
  ['log at', /--lsn or --time/],
  ['log at --lsn 1 --time 2025-11-20', /cannot be used with/],
  ['log trace', /missing required argument 'item'/],
  ['log verify x', /too many arguments/],
  ['log verify --backup x --position-file y', /cannot be used with/],
  ['log verfy', /Did you mean verify/],
])('relay %s is a usage error', async (words, said) => {
  const folder = await temporaryFolder();
  const place = words.startsWith('serve') ? ['--store-dir', join(folder, 'store'), '--listen', '127.0.0.1:0'] : [];
  const [name = '', ...more] = words.split(' ');
  const ended = await runHere(['relay', ...(name === '' ? [] : [name]), ...place, ...more]);
  expect(ended).toMatchObject({ code: EXIT.usage, stdout: '' });
  expect(ended.stderr).toMatch(said);
  expect(ended.stderr).not.toMatch(STACK);
  expect(readdirSync(folder)).toEqual([]);
});
