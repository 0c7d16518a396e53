/**
 * The versions of Node that the agent is tried on (`npm run test:nodes`): the first of each line that `engines` in package.json
 * allows, and the newest. They are fetched by npm into .cache/nodes, and are what is named here or refused.
 */
import { execFileSync } from 'node:child_process'
import { existsSync, mkdirSync, readFileSync, renameSync, rmSync } from 'node:fs'
import { join } from 'node:path'

const ROOT = join(import.meta.dirname, '..', '..')

export interface NodeVersion {
  version: string
  /** Tried by the short lane too. */
  short: boolean
  /** Of the packages `node-linux-<architecture>`, as the registry has them. */
  integrity: Readonly<Record<string, string>>
}

export const NODES: readonly NodeVersion[] = [
  {
    version: '20.19.0',
    short: true,
    integrity: {
      x64: 'sha512-HzVYgEgabV/n3nP2F9mcxS0Nxgg99jynX9CMovakLmSYTuTdQRbbtw0yadY8+qKcqXfiDAtb2hmtR7nDPzclGA==',
      arm64: 'sha512-kT7jX7frbsrMrXMsBaFt3Th1SWs5VjxTzd0U8vxcmdCFkaqeu5hFK0+QoYfIo5drmr3DmwJfLtO2gnD/7hNE/Q==',
    },
  },
  {
    version: '22.14.0',
    short: false,
    integrity: {
      x64: 'sha512-R9k0h0zCZkX4/rlJbwS2c/CaOlmbAz3FkcQnQTJneQgJFaMntb8GVT64oArZEvrnzSyck8tGpcss6u3nT7hqxg==',
      arm64: 'sha512-pg8rI8Ka8Qf4gwBfaa3vYAuBeiK1LcGxNEsW+VADvpJz4ZAq3yZ64oMwnighJW57tObnd9U0cANhNkL+BgG6OA==',
    },
  },
  {
    version: '22.23.3',
    short: true,
    integrity: {
      x64: 'sha512-qHnz5tFsHoj/WM+uRENVjWONi5hVvmwrgq8A4V76KpuVNAc4+jwK8x4gwbobE9BtHNg/AKR2583eYorLF/c7ng==',
      arm64: 'sha512-l3DAHZreylo+p9QXDtsOrjG2JXJqVzYXnAGmIQNOUNARcMppTO2cmewVQP+36tjJnSE+dzpMNtgW+c3oiDvXtA==',
    },
  },
  {
    version: '24.0.0',
    short: false,
    integrity: {
      x64: 'sha512-+KpEGmZygQN9RNlRKFP4+Y5UewA3lYmxPsuEwYEkU3sweSCFUvUVdIz+6GORYgVl1bdEFJR2xH2Y4HNM9j08Bw==',
    },
  },
  {
    version: '24.21.0',
    short: true,
    integrity: {
      x64: 'sha512-3nULszZ5X0fciYpG0t6TrdApJzAn8+FlINP6OiMX7V8HrvpATPN936U1LlReOJriLRa4e8yEqQBYCnLyPNAs7Q==',
      arm64: 'sha512-FpJRPEz2OvvTLfjIOlNGFY9JLPMKgl5m+d4oGYBLg24kJ1mmvN1Zl/HPJgF4HDaJ51ISev1l1cRZ/DM+keXW5g==',
    },
  },
]

/** What `--with-node` packs. */
export const NEWEST = '24.21.0'

/** Where that version is once it was fetched. */
export const nodeFolder = (version: string): string =>
  join(ROOT, '.cache/nodes', version, 'node_modules', `node-linux-${process.arch}`)

/**
 * Folder of that version, with `bin/node` and the headers in `include`; fetched unless it is there.
 * @throws Error when the registry has another content, or none for this architecture
 */
export function fetchNode({ version, integrity }: NodeVersion): string {
  const name = `node-linux-${process.arch}`
  const wanted = integrity[process.arch]
  if (wanted === undefined) throw new Error(`Node ${version} is not named for ${process.arch} in scripts/nodes.ts`)
  const kept = join(ROOT, '.cache/nodes', version)
  if (!existsSync(kept)) {
    const fresh = `${kept}.${process.pid}`
    mkdirSync(fresh, { recursive: true })
    try {
      const options = ['--no-audit', '--no-fund', '--ignore-scripts', '--prefix', fresh]
      execFileSync('npm', ['install', ...options, `${name}@${version}`], { stdio: ['ignore', 'ignore', 2] })
      const lock = JSON.parse(readFileSync(join(fresh, 'node_modules/.package-lock.json'), 'utf8'))
      const had = lock.packages[`node_modules/${name}`]?.integrity
      if (had !== wanted) throw new Error(`${name}@${version} has ${had}, not what scripts/nodes.ts names: not used`)
      renameSync(fresh, kept)
    } finally {
      rmSync(fresh, { recursive: true, force: true })
    }
  }
  return nodeFolder(version)
}

/** That version. @throws Error when the list has none such */
export function nodeVersion(version: string): NodeVersion {
  const found = NODES.find((it) => it.version === version)
  if (found === undefined) throw new Error(`Node ${version} is not in scripts/nodes.ts`)
  return found
}

/** A line of Node that is allowed: from `least` on, up to but without the major version `beyond`. */
export interface NodeLine {
  least: string
  beyond: number
}

/** Lines of `engines.node`, which is written `^a.b.c || ^d.e.f`. @throws Error when it is written otherwise */
export function nodeLines(engines: string): NodeLine[] {
  return engines.split(' || ').map((part) => {
    const [, least, major] = /^\^((\d+)\.\d+\.\d+)$/.exec(part) ?? []
    if (least === undefined) throw new Error(`engines.node: ${part} is not written ^major.minor.patch`)
    return { least, beyond: Number(major) + 1 }
  })
}
