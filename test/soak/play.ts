/** Plays a soak item by item: changes, and what befalls the agent. Throws Broken as soon as anything is not as the model says. */
import { once } from 'node:events'
import { setTimeout as wait } from 'node:timers/promises'
import type { Answer } from '../build.ts'
import { Broken } from './broken.ts'
import { kernelDifferences } from './kernel.ts'
import { type Args, type Kind, P } from './kind.ts'
import { bgp } from './kinds/bgp.ts'
import { tenancy } from './kinds/tenancy.ts'
import { traffic } from './kinds/traffic.ts'
import { ways } from './kinds/ways.ts'
import { list } from './listing.ts'
import { MEDDLING } from './meddling.ts'
import { type Effect, Model } from './model.ts'
import type { SoakNode } from './node.ts'
import { Readings } from './readings.ts'
import { spaceDifferences } from './space.ts'
import { Told, unexplained } from './told.ts'

/** Plain data, so that a list of them can be printed, shortened and played again. */
export type Item =
  /** A change; `name` is what it makes. */
  | { do: 'change'; kind: string; name: string; args: Args }
  /** kill -9 in so many milliseconds, whatever is going on then. */
  | { do: 'kill'; ms: number }
  | { do: 'restart' }
  /** Another build takes the place of this one. */
  | { do: 'upgrade' }
  | { do: 'reboot' }
  /** Somebody else's hand in what is ours. */
  | { do: 'meddle'; with: string; draw: number }
  /** 1,000 rules come at once, each becomes another, and they go. */
  | { do: 'replace' }
  | { do: 'check' }

export const KINDS: Readonly<Record<string, Kind>> = { ...tenancy, ...ways, ...traffic }
export const BGP_KINDS: Readonly<Record<string, Kind>> = bgp
const ALL: Readonly<Record<string, Kind>> = { ...KINDS, ...BGP_KINDS }
const RULES = 1000
const PATIENCE_MS = 30_000

export interface Tally {
  tried: number
  done: number
  refused: string
}

export class Player {
  readonly node: SoakNode
  readonly model = new Model()
  readonly withBgp: boolean
  readonly tally = new Map<string, Tally>()
  readonly faults = new Map<string, number>()
  readonly #told: Told
  readonly #readings: Readings
  #foreign: string
  /** Since the last check. */
  #since: Item[] = []
  /** What an unanswered change would have done. */
  #open: { effects: Effect[]; what: string } | undefined
  #dying: { exit: Promise<unknown>; over: () => Promise<void> } | undefined

  constructor(node: SoakNode, withBgp: boolean) {
    this.node = node
    this.withBgp = withBgp
    this.model.apply(node.own)
    this.#foreign = node.foreign()
    this.#told = new Told(node.agent)
    this.#readings = new Readings(node)
  }

  /** The agent was killed, and nobody has started it since. */
  get isDown(): boolean {
    return (
      this.#open !== undefined || this.node.agent.child.exitCode !== null || this.node.agent.child.signalCode !== null
    )
  }

  /** @throws Broken with the items since the last check */
  async play(item: Item): Promise<void> {
    this.#since.push(item)
    try {
      await this.#play(item)
    } catch (error) {
      if (!(error instanceof Broken)) throw error
      const items = this.#since.map((one) => JSON.stringify(one)).join('\n')
      throw new Broken(`${error.message}\nsince the last check:\n${items}`, { cause: error })
    }
  }

  async #play(item: Item): Promise<void> {
    if (item.do !== 'change' && item.do !== 'check') this.faults.set(item.do, (this.faults.get(item.do) ?? 0) + 1)
    switch (item.do) {
      case 'change':
        return this.#change(item)
      case 'kill':
        return this.#kill(item.ms)
      case 'restart':
      case 'upgrade':
        return this.#restart(item.do)
      case 'reboot':
        await this.#alive()
        await this.check()
        await this.node.pause()
        await this.node.reboot()
        return this.#forget().then(() => this.node.begin())
      case 'meddle':
        await this.#alive()
        return this.#meddle(item)
      case 'replace':
        await this.#alive()
        return this.#across('replace', () => this.#replace())
      default:
        return this.check()
    }
  }

  /** The model, what REST lists and what the kernel holds are one, and others have what they had. */
  async check(): Promise<void> {
    await this.#alive()
    // First of all: whatever else is asked takes time, in which the agent may repair.
    const drift = await this.#drift(true)
    if (drift.body.status !== 'clean') throw new Broken(`the kernel is not as stored: ${drift.text}`)
    await this.#nothingRepaired()
    await this.#compareStore()
    const kernel = kernelDifferences(this.node.ns, this.model)
    if (kernel.length > 0) throw new Broken(kernel.join('\n'))
    const foreign = this.node.foreign()
    if (foreign !== this.#foreign)
      throw new Broken(`what is others' was touched:\n${this.#foreign}\nbecame\n${foreign}`)
    const more = [...(await spaceDifferences(this.node.agent.call)), ...(await this.#readings.differences(this.model))]
    if (more.length > 0) throw new Broken(more.join('\n'))
    this.#since = []
  }

  async #compareStore(): Promise<void> {
    const { model } = this
    let listing = await list(this.node.agent.call, model, this.withBgp)
    const differences = model.differences(listing)
    const open = this.#open
    this.#open = undefined
    if (differences.length > 0) {
      if (open === undefined) throw new Broken(differences.join('\n'))
      model.apply(open.effects)
      // What is derived is compared with the model as it now is.
      listing = await list(this.node.agent.call, model, this.withBgp)
      const after = model.differences(listing)
      if (after.length > 0) {
        throw new Broken(
          `half of a change is there: ${open.what}\nwithout it: ${differences.join('\n')}\nwith it: ${after.join('\n')}`,
        )
      }
    }
    model.remember(listing)
  }

  async #change({ kind, name, args }: Item & { do: 'change' }): Promise<void> {
    const it = ALL[kind]
    if (it === undefined || this.isDown) return
    const { model } = this
    const [method, path, body] = it.request(args, name, model)
    const effects = it.effect(args, name, model)
    const tally = this.tally.get(kind) ?? { tried: 0, done: 0, refused: '' }
    this.tally.set(kind, tally)
    tally.tried++
    let answer: Answer
    try {
      answer = await this.node.agent.call(method, path, body)
    } catch (error) {
      if (this.#dying === undefined) throw new Broken(`${method} ${path}: ${error}`)
      this.#open = { effects, what: `${method} ${path} ${JSON.stringify(body ?? {})}` }
      return
    }
    if (answer.status >= 500)
      throw new Broken(`${method} ${path} ${JSON.stringify(body)}: ${answer.status} ${answer.text}`)
    if (answer.status >= 300) {
      tally.refused = `${answer.status} ${answer.text.slice(0, 160)}`
      return
    }
    tally.done++
    model.apply(effects)
    if (it.made) {
      const [collection, id, of] = it.made
      model.learn(collection, of ? args[of] : name, String(id(answer.body)))
    }
  }

  async #kill(ms: number): Promise<void> {
    if (this.isDown) return
    const { child } = this.node.agent
    this.#dying = { over: await this.node.cross('kill'), exit: once(child, 'exit') }
    setTimeout(() => child.kill('SIGKILL'), ms)
  }

  /** Waits for a death that was announced, and starts the agent anew. */
  async #alive(): Promise<void> {
    if (this.#dying === undefined) return
    const { exit, over } = this.#dying
    await exit
    this.#dying = undefined
    await this.node.agent.restart()
    await over()
    await this.#booted(['upkeep', ...(this.#open?.effects.map(({ of }) => of) ?? [])])
  }

  async #across(what: string, work: () => Promise<void>): Promise<void> {
    const over = await this.node.cross(what)
    await work()
    await over()
  }

  /** Nobody but the soak has a hand in what is ours, so what a pass found is left from a change, or undone by none. */
  async #nothingRepaired(): Promise<void> {
    const [drifts, passes] = [this.#told.drifts(), await this.#told.passes()]
    const all = [...drifts.map((data) => `agent.drift ${data}`), ...passes.map(({ text }) => text)]
    if (all.length > 0) throw new Broken(`the agent repaired what nobody had changed:\n${all.join('\n')}`)
  }

  async #restart(how: 'restart' | 'upgrade'): Promise<void> {
    await this.#alive()
    const [upgrades, former] = [how === 'upgrade', this.node.isFormer()]
    await this.#across(how, () => (upgrades ? this.node.upgrade() : this.node.agent.restart()))
    // Another release leaves other objects: the first pass has to change them.
    await (upgrades && former ? this.#told.passes() : this.#booted(upgrades ? ['upgrade'] : []))
  }

  /** What the first pass found may be left from an interrupted change of these collections, or nothing. */
  async #booted(interrupted: readonly string[]): Promise<void> {
    for (const pass of await this.#told.passes()) {
      const { cause, found, text } = pass
      if (cause !== 'boot') throw new Broken(`the agent repaired what nobody had changed: ${text}`)
      const left = unexplained(pass, interrupted)
      if (found.length > 0 && left.length === 0) continue
      throw new Broken(
        this.#open
          ? `${this.#open.what} was interrupted, but a start found more to do than that: ${text}`
          : `nothing was interrupted, but a start found something to do: ${text}`,
      )
    }
  }

  /** What has been told so far is the soak's doing. */
  async #forget(): Promise<void> {
    this.#told.drifts()
    await this.#told.passes()
  }

  async #meddle({ with: how, draw }: Item & { do: 'meddle' }): Promise<void> {
    const act = MEDDLING[how]
    if (act === undefined) return
    await this.#drift(true)
    await this.#nothingRepaired()
    if (act.disturbs) await this.node.pause()
    act.meddle(this.node.ns, draw)
    // Half of the time it is told to look, else it finds out by itself.
    if (draw < 0.5) await this.#drift(false)
    const deadline = Date.now() + PATIENCE_MS
    let told = await this.#drift(true)
    while (told.body.status !== 'clean') {
      if (Date.now() > deadline) throw new Broken(`${how} is not repaired: ${told.text}`)
      await wait(300)
      told = await this.#drift(true)
    }
    await this.#forget()
    if (act.disturbs) await this.node.begin()
  }

  async #drift(dry_run: boolean): Promise<Answer> {
    const answer = await this.node.agent.call('POST', '/control/v1/drift', { dry_run })
    if (answer.status !== 200) throw new Broken(`comparing the kernel: ${answer.status} ${answer.text}`)
    return answer
  }

  async #replace(): Promise<void> {
    const { call } = this.node.agent
    const ok = async (method: string, path: string, body?: unknown) => {
      const answer = await call(method, path, body)
      if (answer.status >= 300) throw new Broken(`${method} ${path}: ${answer.status} ${answer.text.slice(0, 300)}`)
      return answer.body
    }
    const rule = (n: number, port: number) => ({
      action: 'drop',
      protocol: 'udp',
      source_ip: `192.0.2.${n % 256}`,
      dest_port: port + n,
    })
    const many = Array.from({ length: RULES }, (_, n) => rule(n, 10_000))
    const before = new Set(((await ok('GET', `${P}/rules`)).rules as { id: number }[]).map(({ id }) => id))
    await ok('POST', `${P}/rules/batch`, { rules: many, atomic: true })
    const all = ((await ok('GET', `${P}/rules`)).rules as { id: number }[]).map(({ id }) => id)
    const made = all.filter((id) => !before.has(id))
    if (made.length !== RULES) throw new Broken(`${made.length} rules instead of ${RULES}`)
    const others: number[] = []
    for (const [n, id] of made.entries()) {
      const answer = await ok('PUT', `${P}/rules/${id}`, rule(n, 30_000))
      others.push((answer.rule as { id: number }).id)
    }
    for (const id of others) await ok('DELETE', `${P}/rules/${id}`)
  }
}
