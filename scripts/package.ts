/**
 * `npm run package [-- --with-node] [--out DIR] [--level 0..9]`: the Debian package of a built checkout, with all modules and compiled
 * programs, so that the node needs no compiler and no registry. Prints the path of the file.
 *
 * It runs on every Node that package.json allows, on Node 20 if SQLite for that is in the checkout, or brings the newest along
 * (`--with-node`, fetched by npm) for nodes whose distribution has none. The same checkout gives the same bytes; their time is
 * SOURCE_DATE_EPOCH, else that of the last commit.
 */
import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { chmodSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join, resolve } from 'node:path'
import { parseArgs } from 'node:util'
import { gzipSync } from 'node:zlib'
import { fetchNode, NEWEST, nodeLines, nodeVersion } from './nodes.ts'
import {
  files,
  HOME,
  hasOldSqlite,
  type Module,
  type Placed,
  productionModules,
  programFiles,
  sharedFiles,
} from './package-tree.ts'

const ROOT = join(import.meta.dirname, '..', '..')
const NAME = 'stratum-node'
const MAINTAINER = 'stratum-node <packages@stratum-node.invalid>'
const DOC = `usr/share/doc/${NAME}`
const ARCHITECTURES: Readonly<Record<string, string>> = { x64: 'amd64', arm64: 'arm64' }
const COMPLETIONS: Readonly<Record<string, string>> = {
  bash: 'usr/share/bash-completion/completions/stratumctl',
  zsh: 'usr/share/zsh/vendor-completions/_stratumctl',
  fish: 'usr/share/fish/vendor_completions.d/stratumctl.fish',
}
const OWN_NODE = `${HOME}/bin/node`
/** Loaded by name at run time, so nothing tells dpkg of them. */
const LIBRARIES = ['libnftables1', 'libbpf1']
/** What the SQLite binary and Node are linked with. */
const LINKED = ['libc6 (>= 2.34)', 'libgcc-s1', 'libstdc++6 (>= 11)']
/** Objects without which the agent would run without eBPF. */
const OBJECTS = ['port', 'lb', 'firewall'].map((name) => `build/dataplane/bpf/src/${name}.bpf.o`)

const text = (path: string) => readFileSync(join(ROOT, path), 'utf8')
const template = (name: string) => text(`templates/package/${name}`)
const manifest: { version: string; description: string; engines: { node: string } } = JSON.parse(text('package.json'))

interface Options {
  withNode: boolean
  out: string
  /** Of compression: 0 is quick, 9 small. */
  level: string
}

function main(): void {
  const { values } = parseArgs({
    options: { 'with-node': { type: 'boolean' }, out: { type: 'string' }, level: { type: 'string', default: '6' } },
  })
  const options = {
    withNode: values['with-node'] === true,
    out: resolve(values.out ?? join(ROOT, 'build')),
    level: values.level,
  }
  for (const path of ['build/core/main.js', 'build/bundle/agent.js', ...OBJECTS]) {
    if (!existsSync(join(ROOT, path)))
      throw new Error(`${path} is missing: run npm run build (eBPF needs clang, libbpf-dev)`)
  }
  const stage = mkdtempSync(join(tmpdir(), 'stratum-package-'))
  try {
    chmodSync(stage, 0o755)
    process.stdout.write(`${build(stage, options)}\n`)
  } finally {
    rmSync(stage, { recursive: true, force: true })
  }
}

function build(stage: string, { withNode, out, level }: Options): string {
  const architecture = ARCHITECTURES[process.arch]
  if (architecture === undefined) throw new Error(`no package for ${process.arch}: amd64 and arm64 only`)
  const withOldSqlite = !withNode && hasOldSqlite(ROOT)
  const modules = productionModules(ROOT, withOldSqlite)
  const shared = sharedFiles(ROOT)
  for (const [to, content] of companions()) put(stage, to, content)
  put(stage, 'usr/share/man/man8/stratum-install.8.gz', compressed(template('stratum-install.8')))
  for (const placed of [...programFiles(ROOT, modules), ...shared]) place(stage, placed)
  if (withNode) place(stage, { from: join(fetchNode(nodeVersion(NEWEST)), 'bin/node'), to: OWN_NODE, executable: true })
  const node = withNode ? `/${OWN_NODE}` : '/usr/bin/node'
  const program = (main: string) => template('program').replace('@NODE@', node).replace('@MAIN@', main)
  put(stage, 'usr/sbin/stratumd', program('main.js'), true)
  put(stage, 'usr/bin/stratumctl', program('cli/main.js'), true)
  put(stage, 'usr/sbin/stratum-install', text('scripts/install'), true)
  put(stage, 'lib/systemd/system/stratumd.service', template('stratumd.service'))
  put(stage, 'usr/lib/sysusers.d/stratum-node.conf', template('sysusers.conf'))
  put(stage, 'etc/default/stratumd', template('default'))
  folder(join(stage, 'etc/stratum'))
  put(stage, `${DOC}/copyright`, copyright(modules))
  put(stage, `${DOC}/changelog.gz`, compressed(debianChangelog()))
  put(stage, `${DOC}/CHANGELOG.md.gz`, compressed(text('CHANGELOG.md')))
  put(stage, `usr/share/lintian/overrides/${NAME}`, template('lintian-overrides'))
  put(stage, `${DOC}/README.md.gz`, compressed(text('README.md')))

  const installed = files(stage)
  const size = installed.reduce((sum, file) => sum + Math.ceil(statSync(join(stage, file)).size / 1024), 0)
  put(stage, 'DEBIAN/control', control(architecture, size, withNode ? [] : nodeDepends(withOldSqlite)))
  put(stage, 'DEBIAN/conffiles', '/etc/default/stratumd\n')
  put(
    stage,
    'DEBIAN/md5sums',
    installed
      .filter((file) => !file.startsWith('etc/'))
      .map((file) => sum(stage, file))
      .join(''),
  )
  for (const name of ['preinst', 'postinst', 'prerm', 'postrm'])
    put(
      stage,
      `DEBIAN/${name}`,
      template(name).replaceAll('@VERSION@', manifest.version).replaceAll('@NODE@', node),
      true,
    )
  // See postinst: what it has V8 compile fits one Node.
  if (!withNode) put(stage, 'DEBIAN/triggers', `interest-noawait ${node}\n`)

  mkdirSync(out, { recursive: true })
  const file = join(out, `${NAME}_${manifest.version}_${architecture}.deb`)
  execFileSync('dpkg-deb', ['--root-owner-group', '-Zxz', `-z${level}`, '--threads-max=1', '--build', stage, file], {
    stdio: ['ignore', 2, 2],
    env: { ...process.env, SOURCE_DATE_EPOCH: time(), LC_ALL: 'C', TZ: 'UTC' },
  })
  return file
}

/** The manual and the completions, as the programs that make them say; a build without these is packed without. */
function companions(): [string, Buffer][] {
  const run = (...args: string[]) =>
    execFileSync(process.execPath, args, { cwd: ROOT, stdio: ['ignore', 'pipe', 'pipe'], maxBuffer: 16 << 20 })
  const found: [string, Buffer][] = []
  const maker = 'build/scripts/man.js'
  if (existsSync(join(ROOT, maker))) {
    const pages = mkdtempSync(join(tmpdir(), 'stratum-man-'))
    try {
      run(maker, pages)
      for (const page of files(pages)) {
        const content = readFileSync(join(pages, page))
        found.push([`usr/share/man/man${page.at(-1)}/${page}.gz`, compressed(content)])
      }
    } finally {
      rmSync(pages, { recursive: true })
    }
  }
  for (const [shell, to] of Object.entries(COMPLETIONS)) {
    try {
      found.push([to, run('build/core/cli/main.js', 'completion', shell)])
    } catch {
      // A build whose CLI has no such command.
    }
  }
  if (found.length === 0) process.stderr.write('package: this build makes no manual and no completions\n')
  return found
}

/** Any line of Node that is allowed, in the way in which dpkg can say that: each clause shuts one gap. */
function nodeDepends(withOldSqlite: boolean): string[] {
  const lines = nodeLines(manifest.engines.node).filter(({ beyond }) => withOldSqlite || beyond > 21)
  return [
    `nodejs (>= ${lines[0]?.least})`,
    ...lines.map(({ beyond }, index) => {
      const next = lines[index + 1]
      return `nodejs (<< ${beyond}~)${next === undefined ? '' : ` | nodejs (>= ${next.least})`}`
    }),
  ]
}

function control(architecture: string, kilobytes: number, node: readonly string[]): string {
  return `Package: ${NAME}
Version: ${manifest.version}
Architecture: ${architecture}
Maintainer: ${MAINTAINER}
Installed-Size: ${kilobytes}
Depends: ${[...LIBRARIES, ...LINKED, ...node].join(', ')}
Suggests: frr
Section: net
Priority: optional
Description: ${manifest.description.replace(/^One agent per/, 'agent of a')}
 stratumd keeps firewall rules, networks, routes, load balancing, BGP, DNS and
 DHCP of a node as they are stored, in the kernel by eBPF and nftables, and
 offers one local API for them. Traffic does not depend on it: it may be
 stopped, upgraded and removed while packets go on.
`
}

function debianChangelog(): string {
  const date = new Date(Number(time()) * 1000).toUTCString().replace('GMT', '+0000')
  return `${NAME} (${manifest.version}) stable; urgency=medium\n\n  * See CHANGELOG.md.gz.\n\n -- ${MAINTAINER}  ${date}\n`
}

function copyright(modules: readonly Module[]): string {
  const list = modules.map(
    ({ folder, name, version, license }) => `  ${name} ${version}: ${license} (/${HOME}/${folder})`,
  )
  return `stratum-node is licensed under the Apache License, Version 2.0;
on Debian systems its text is in /usr/share/common-licenses/Apache-2.0.

Copyright: the authors of stratum-node

It brings these modules, each under the licence in its folder:

${list.join('\n')}
`
}

/** No name and no time in it, so the same text gives the same bytes. */
const compressed = (content: string | Buffer): Buffer => gzipSync(content, { level: 9 })

const sum = (stage: string, file: string): string =>
  `${createHash('md5')
    .update(readFileSync(join(stage, file)))
    .digest('hex')}  ${file}\n`

function place(stage: string, { from, to, executable = false }: Placed): void {
  put(stage, to, readFileSync(resolve(ROOT, from)), executable)
}

/** Modes are said, never those of the checkout, which depend on who made it. */
function put(stage: string, to: string, content: string | Buffer, executable = false): void {
  const target = join(stage, to)
  folder(dirname(target))
  writeFileSync(target, content)
  chmodSync(target, executable ? 0o755 : 0o644)
}

function folder(path: string): void {
  if (existsSync(path)) return
  folder(dirname(path))
  mkdirSync(path)
  chmodSync(path, 0o755)
}

/** Seconds since 1970, as text. */
function time(): string {
  const { SOURCE_DATE_EPOCH } = process.env
  if (SOURCE_DATE_EPOCH !== undefined) return SOURCE_DATE_EPOCH
  try {
    const stdio: ['ignore', 'pipe', 'ignore'] = ['ignore', 'pipe', 'ignore']
    return execFileSync('git', ['log', '-1', '--format=%ct'], { cwd: ROOT, encoding: 'utf8', stdio }).trim()
  } catch {
    // Not a clone: the sources of a release carry its time.
    return String(Math.floor(statSync(join(ROOT, 'CHANGELOG.md')).mtimeMs / 1000))
  }
}

main()
