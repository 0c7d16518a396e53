/** State of the kernel as its own tools list it. What is not installed, or refused, says so in its place. */
import { execFile } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { promisify } from 'node:util'

const TIMEOUT_MS = 20_000
const MOST_BYTES = 16 * 1024 * 1024

interface Listing {
  name: string
  command: readonly [string, ...string[]]
}

const LISTINGS: readonly Listing[] = [
  { name: 'nft.txt', command: ['nft', 'list', 'table', 'inet', 'stratum'] },
  { name: 'links.json', command: ['ip', '-json', '-details', '-statistics', 'link', 'show'] },
  { name: 'addresses.json', command: ['ip', '-json', 'address', 'show'] },
  { name: 'routes4.json', command: ['ip', '-4', '-json', 'route', 'show', 'table', 'all'] },
  { name: 'routes6.json', command: ['ip', '-6', '-json', 'route', 'show', 'table', 'all'] },
  { name: 'rules4.json', command: ['ip', '-4', '-json', 'rule', 'show'] },
  { name: 'rules6.json', command: ['ip', '-6', '-json', 'rule', 'show'] },
  { name: 'qdiscs.json', command: ['tc', '-json', '-statistics', 'qdisc', 'show'] },
  { name: 'bpf-programs.json', command: ['bpftool', '--json', 'prog', 'list'] },
  { name: 'bpf-maps.json', command: ['bpftool', '--json', 'map', 'list'] },
  { name: 'bpf-links.json', command: ['bpftool', '--json', 'link', 'list'] },
  { name: 'bpf-net.json', command: ['bpftool', '--json', 'net', 'list'] },
]
const FILES: Readonly<Record<string, string>> = {
  'proc-version.txt': '/proc/version',
  'proc-meminfo.txt': '/proc/meminfo',
  'proc-net-dev.txt': '/proc/self/net/dev',
  'proc-softnet.txt': '/proc/self/net/softnet_stat',
  'os-release.txt': '/etc/os-release',
}

export async function kernelState(): Promise<[name: string, text: string][]> {
  const files = Object.entries(FILES).map(([name, file]): [string, string] => [name, textOf(file)])
  const listed: [string, string][] = []
  for (const { name, command } of LISTINGS) listed.push([name, withoutWords(await run(command))])
  return [...files, ...listed].map(([name, text]) => [`kernel/${name}`, text])
}

/** The only places where the kernel keeps people's own words for us: aliases of devices, comments of nft. */
function withoutWords(text: string): string {
  return text
    .replace(/"ifalias":"(?:[^"\\]|\\.)*"/g, '"ifalias":"[text]"')
    .replace(/comment "[^"\n]*"/g, 'comment "[text]"')
}

async function run([command, ...args]: Listing['command']): Promise<string> {
  const environment = { PATH: '/usr/sbin:/usr/bin:/sbin:/bin', LC_ALL: 'C', TZ: 'UTC' }
  const options = { encoding: 'utf8' as const, timeout: TIMEOUT_MS, maxBuffer: MOST_BYTES, env: environment }
  try {
    return (await promisify(execFile)(command, args, options)).stdout
  } catch (error) {
    const { code, stderr = '', message } = error as { code?: unknown; stderr?: string; message: string }
    if (code === 'ENOENT') return `${command} is not installed\n`
    return `${command} ${args.join(' ')}: ${stderr.split('\n')[0] || message.split('\n')[0]}\n`
  }
}

function textOf(file: string): string {
  try {
    return readFileSync(file, 'utf8')
  } catch (error) {
    return `${(error as Error).message}\n`
  }
}
