/** Where this machine's apt fetches Debian from, and apt roots of other suites that leave its own untouched. */
import { execFileSync } from 'node:child_process'
import { existsSync, mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

const KEYRING = '/usr/share/keyrings/debian-archive-keyring.gpg'

export interface Mirrors {
  /** URI of the archive. */
  archive: string
  /** That of its security updates; undefined where apt has none. */
  security: string | undefined
}

/** @throws Error when apt knows no Debian archive */
export function mirrors(): Mirrors {
  const list = execFileSync('apt-get', ['indextargets', '--format', '$(REPO_URI) $(CODENAME) $(ORIGIN)'], {
    encoding: 'utf8',
  })
  const debian = list
    .split('\n')
    .map((line) => line.split(' '))
    .filter(([, , origin]) => origin === 'Debian')
  const uri = (security: boolean) => debian.find(([, name = '']) => name.endsWith('-security') === security)?.[0]
  const archive = uri(false)
  if (archive === undefined)
    throw new Error('apt knows no Debian archive: see sources.list(5), then run apt-get update')
  return { archive, security: uri(true) }
}

/** Lines of a sources.list of those suites; a security suite of which this machine has no mirror is left out. */
export function sources(suites: readonly string[]): string {
  const { archive, security } = mirrors()
  return suites
    .flatMap((suite) => {
      const uri = suite.endsWith('-security') ? security : archive
      return uri === undefined ? [] : [`deb [signed-by=${KEYRING}] ${uri} ${suite} main\n`]
    })
    .join('')
}

/** What this machine's apt is told of fetching (a proxy, say), as a file of apt.conf.d. */
export const fetching = (): string => execFileSync('apt-config', ['dump', 'Acquire'], { encoding: 'utf8' })

/**
 * An apt of its own in `dir`, with the indexes of `suites` fetched. `architecture` is one of Debian's, or this machine's.
 * Environment in which apt's programs use it.
 */
export function aptRoot(dir: string, suites: readonly string[], architecture?: string): NodeJS.ProcessEnv {
  for (const sub of ['lists/partial', 'cache/archives/partial']) mkdirSync(join(dir, sub), { recursive: true })
  if (!existsSync(join(dir, 'status'))) writeFileSync(join(dir, 'status'), '')
  writeFileSync(join(dir, 'sources.list'), sources(suites))
  const settings = {
    'Dir::State': dir,
    'Dir::State::status': join(dir, 'status'),
    'Dir::Cache': join(dir, 'cache'),
    'Dir::Etc::sourcelist': join(dir, 'sources.list'),
    'Dir::Etc::sourceparts': '/dev/null',
    'Dir::Etc::preferencesparts': '/dev/null',
    // apt's sandbox user may not write here; root downloads itself.
    'APT::Sandbox::User': 'root',
    'Acquire::Languages': 'none',
    ...(architecture && { 'APT::Architecture': architecture, 'APT::Architectures::': architecture }),
  }
  const lines = Object.entries(settings).map(([name, value]) => `${name} "${value}";\n`)
  writeFileSync(join(dir, 'apt.conf'), lines.join(''))
  const env = { ...process.env, APT_CONFIG: join(dir, 'apt.conf') }
  execFileSync('apt-get', ['update', '-qq'], { env, stdio: ['ignore', 2, 2] })
  return env
}
