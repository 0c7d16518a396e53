/**
 * The pinned links of the classifier, one for each address family. A link cannot be given another program: an upgrade
 * attaches the new one at the other of two places, so that packets pass both for a moment, and then ends the old link.
 */
import { mkdirSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { KernelError } from '../../libc.ts'
import { CLASSIFIER_PRIORITIES } from '../../numbers.ts'
import { attachNetfilter, type Link, openLink } from '../link.ts'
import type { BpfObject } from '../object.ts'

const PROGRAMS = { firewall4: 'ipv4', firewall6: 'ipv6' } as const
type ProgramName = keyof typeof PROGRAMS
const NAMES = Object.keys(PROGRAMS) as ProgramName[]

/** `<program>-<digest of the object that it comes from>` */
const PIN = /^(firewall[46])-([0-9a-f]{16})$/

export class FilterLinks {
  readonly #dir: string
  readonly #object: Pick<BpfObject, 'program'>
  readonly #digest: string

  /** `dir`: where links are pinned. `digest` tells programs of one build from those of another. */
  constructor(dir: string, object: Pick<BpfObject, 'program'>, digest: string) {
    this.#dir = join(dir, 'links')
    this.#object = object
    this.#digest = digest
    mkdirSync(this.#dir, { recursive: true })
  }

  /** Attaches what is missing, and ends the links of other builds. True when something was missing. @throws KernelError */
  async attach(): Promise<boolean> {
    let missing = false
    mkdirSync(this.#dir, { recursive: true })
    for (const name of NAMES) {
      const pin = join(this.#dir, `${name}-${this.#digest}`)
      if (await stands(pin)) continue
      missing = true
      // An upgrade that was cut short has left two, which have both places: one of them judges meanwhile.
      for (const spare of this.#others(name).slice(1)) await detach(join(this.#dir, spare))
      const link = await this.#attach(name)
      try {
        link.pin(pin)
      } finally {
        await link.close()
      }
    }
    for (const name of NAMES) for (const pin of this.#others(name)) await detach(join(this.#dir, pin))
    return missing
  }

  /** Pins of other builds. */
  #others(name: ProgramName): string[] {
    return readdirSync(this.#dir).filter((pin) => {
      const [, program, digest] = PIN.exec(pin) ?? []
      return program === name && digest !== this.#digest
    })
  }

  async #attach(name: ProgramName): Promise<Link> {
    const [first, second] = CLASSIFIER_PRIORITIES
    const at = (priority: number) =>
      attachNetfilter(this.#object.program(name), { family: PROGRAMS[name], hook: 'prerouting', priority })
    try {
      return await at(first)
    } catch (error) {
      if (!(error instanceof KernelError) || error.code !== 'EBUSY') throw error
      return at(second)
    }
  }
}

async function stands(pin: string): Promise<boolean> {
  const link = opened(pin)
  if (link === undefined) return false
  try {
    return link.info().kind === 'netfilter'
  } finally {
    await link.close()
  }
}

function opened(pin: string): Link | undefined {
  try {
    return openLink(pin)
  } catch (error) {
    if (error instanceof KernelError && error.code === 'ENOENT') return undefined
    throw error
  }
}

async function detach(pin: string): Promise<void> {
  const link = openLink(pin)
  try {
    await link.detach()
  } finally {
    await link.close()
  }
}
