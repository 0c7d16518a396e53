/** A node on which no responder works: nothing is told to be served, and everybody is told why. */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import { ofServices, type Told } from '../../../core/cli/doctor/agent.ts'
import { MAIN, startAgent } from '../../../test/agent.ts'
import { scratch } from '../../../test/build.ts'
import { netns, requireRoot } from '../../../test/netns.ts'

requireRoot(t)

/** A program that runs the agent where `spoil` has been done in a mount namespace of its own. */
function spoiledAgent(spoil: string): string {
  const file = join(scratch(t, 'main'), 'main.mjs')
  const own = `mount --make-rprivate / && ${spoil} && exec ${process.execPath} ${MAIN}`
  const args = ['--pdeathsig', 'KILL', 'unshare', '--mount', 'sh', '-c', own]
  writeFileSync(
    file,
    `import { spawnSync } from 'node:child_process'\nspawnSync('setpriv', ${JSON.stringify(args)}, { stdio: 'inherit' })\n`,
  )
  return file
}

const CONTROL = fileURLToPath(import.meta.resolve('../../../responder/control.js'))
const everyUser = Array.from({ length: 14 }, (_, n) => `u${n}:x:${65_520 + n}:${65_520 + n}::/:/bin/false`)

for (const [name, spoil, reason, remedy] of [
  [
    'setpriv fails',
    'mount --bind /bin/false /usr/bin/setpriv',
    /the responder cannot be started: setpriv/,
    /util-linux/,
  ],
  [
    'there is no account',
    `printf 'root:x:0:0::/:/bin/sh\\n${everyUser.join('\\n')}\\n' > "$STRATUM_RUN_DIR/passwd" && mount --bind "$STRATUM_RUN_DIR/passwd" /etc/passwd`,
    /the responder cannot be started: there is no account stratum-responder/,
    /systemd-sysusers/,
  ],
  [
    'it is ended by what it does once it serves',
    `sed 's/function serve(socket) {/&process.abort();/' ${CONTROL} > "$STRATUM_RUN_DIR/control.js" && mount --bind "$STRATUM_RUN_DIR/control.js" ${CONTROL}`,
    /the responder cannot be started: it ended as soon as it had started \(SIGABRT\)/,
    /journalctl -u stratumd/,
  ],
] as const) {
  t.test(`where ${name}, DNS and DHCP are off and say so`, async (t) => {
    const agent = await startAgent(t, { ns: netns(t, 'node'), main: spoiledAgent(spoil) })
    for (const [path, error] of [
      ['/dns/zones', 'dns service not available'],
      ['/dhcp/leases', 'dhcp service not available'],
    ])
      t.match(await agent.call('GET', `/api/v1${path}`), { status: 503, body: { error } }, `err-09 ${path}`)
    // What `service status` and `doctor` read.
    const told = (await agent.call('GET', '/control/v1/services')).body as unknown as Told
    t.match(
      told.facilities.find((facility) => facility.name === 'responder'),
      { available: false, detail: reason },
    )
    for (const name of ['dns', 'dhcp'])
      t.match(
        told.areas.find((area) => area.name === name),
        { reason },
        name,
      )
    t.match(
      ofServices(told).find(({ about }) => about === 'data plane responder'),
      { severity: 'warning', what: reason, remedy },
    )
    t.match(await agent.call('GET', '/api/v1/rules'), { status: 200 }, 'and nothing else is')
  })
}
