/** What is in the package, and that nothing depends on where and when it was made. */
import { execFileSync, spawnSync } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { NODES, nodeLines } from '../../scripts/nodes.ts'
import { hasOldSqlite } from '../../scripts/package-tree.ts'
import { scratch } from '../build.ts'
import { requireProgram } from '../required.ts'
import { builtPackage, freshPackage } from './built.ts'

const UNIT = join(import.meta.dirname, '../../../templates/package/stratumd.service')
const output = (command: string, ...args: string[]) =>
  execFileSync(command, args, { encoding: 'utf8', maxBuffer: 64 << 20 })
const file = builtPackage(t)
const rows = output('dpkg-deb', '--contents', file).trimEnd().split('\n')

t.test('the same checkout gives the same bytes', async (t) => {
  t.ok(readFileSync(file).equals(readFileSync(freshPackage(t))))
})

t.test('programs, their modules and compiled eBPF are in it, and nothing that only developers need', async (t) => {
  const names = rows.map((row) => row.split(/\s+/)[5] ?? '')
  for (const wanted of [
    './usr/sbin/stratumd',
    './usr/sbin/stratum-install',
    './usr/bin/stratumctl',
    './lib/systemd/system/stratumd.service',
    './usr/lib/sysusers.d/stratum-node.conf',
    './usr/lib/stratum-node/build/dataplane/bpf/src/port.bpf.o',
    './usr/lib/stratum-node/build/responder/main.js',
    `./usr/lib/stratum-node/node_modules/better-sqlite3/prebuilds/linux-${process.arch}.node`,
    './usr/lib/stratum-node/node_modules/fastify/LICENSE',
  ])
    t.ok(names.includes(wanted), wanted)
  const dev = ['tap', 'typescript', '@biomejs', 'drizzle-kit', 'fast-check', '@types', 'prebuild-install']
  for (const name of dev)
    t.notOk(
      names.some((it) => it.includes(`/node_modules/${name}/`)),
      name,
    )
  t.same(
    names.filter((name) => /\/stratum-node\/build\/.*(\/test\/|\.map$|\.fake\.js$)/.test(name)),
    [],
  )
  t.same(
    rows.filter((row) => !/^(drwxr-xr-x|-rwxr-xr-x|-rw-r--r--) root\/root /.test(row)),
    [],
    'everything is root, readable by all and writable by root alone',
  )
})

t.test(
  'it depends on any Node that the agent runs on, of the lines that README.md and the lane name, and is of an architecture named there',
  async (t) => {
    const root = join(import.meta.dirname, '../../..')
    const lines = nodeLines(JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')).engines.node)
    const rows = lines.map(({ least, beyond }) => {
      const tried = NODES.map(({ version }) => version).filter((version) => version.startsWith(`${beyond - 1}.`))
      t.equal(tried[0], least, 'the first of a line is tried')
      return `| ${beyond - 1} | ${least} | ${tried.join(', ')} |`
    })
    const readme = readFileSync(join(root, 'README.md'), 'utf8')
    t.ok(readme.includes(`|---|---|---|\n${rows.join('\n')}\n\n`))
    const architecture = output('dpkg-deb', '--field', file, 'Architecture').trim()
    const [, tried, other] = /was tried on (\w+), .* The package can be made on (\w+) too/.exec(readme) ?? []
    t.ok([tried, other].includes(architecture), `README.md says of ${architecture} what was tried there`)
    const depends = output('dpkg-deb', '--field', file, 'Depends')
    const later = 'nodejs (<< 23~) | nodejs (>= 24.0.0), nodejs (<< 25~)'
    const range = hasOldSqlite(root)
      ? `nodejs (>= 20.19.0), nodejs (<< 21~) | nodejs (>= 22.14.0), ${later}`
      : `nodejs (>= 22.14.0), ${later}`
    t.ok(depends.includes(range), depends)
    t.match(depends, /libnftables1.*libbpf1/)
  },
)

t.test('systemd understands every line of the unit, which gives up what it can', async (t) => {
  if (!requireProgram(t, 'systemd-analyze')) return
  const unit = join(scratch(t, 'unit'), 'stratumd.service')
  const text = readFileSync(UNIT, 'utf8')
  t.match(text, /^ExecStart=\/usr\/sbin\/stratumd$/m)
  writeFileSync(unit, text.replace('/usr/sbin/stratumd', '/bin/true'))
  const { status, stderr } = spawnSync('systemd-analyze', ['verify', '--man=no', unit], { encoding: 'utf8' })
  t.notMatch(stderr, /stratumd/)
  t.equal(status, 0, stderr)
  const offline = ['security', '--offline=true', '--no-pager', UNIT]
  const { stdout } = spawnSync('systemd-analyze', offline, { encoding: 'utf8' })
  const exposure = Number(/Overall exposure level for stratumd\.service: ([0-9.]+)/.exec(stdout)?.[1])
  t.match(text, /^SystemCallFilter=.* seccomp$/m, 'or the responder could not confine itself')
  t.ok(exposure <= 4.6, `exposure ${exposure}: what is taken off must not come back unnoticed`)
})

t.test('systemd makes the account of the responder from what is in it', async (t) => {
  if (!requireProgram(t, 'systemd-sysusers')) return
  const root = scratch(t, 'root')
  execFileSync('dpkg-deb', ['--extract', file, root])
  execFileSync('systemd-sysusers', ['--root', root, join(root, 'usr/lib/sysusers.d/stratum-node.conf')])
  t.match(readFileSync(join(root, 'etc/passwd'), 'utf8'), /^stratum-responder:x:[1-9][0-9]*:[1-9][0-9]*:.*nologin$/m)
})
