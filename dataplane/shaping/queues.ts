/** Classes in the kernel: made, emptied, removed. */
import { KernelError } from '../libc.ts'
import type { Netlink } from '../netlink/socket.ts'
import { askClass, type ClassState, decodeClass, deleteClass, listClasses, putClass } from '../netlink/tc.ts'
import type { Message, Received } from '../netlink/wire.ts'
import { KernelRefusal } from '../plane.ts'
import { inSlices } from '../slices.ts'
import { opened, type Placed, placeOf, WAYS, type Way } from './classes.ts'
import { endOf, type Pairs } from './pairs.ts'

/** What waits leaves at once where nothing holds it back; a device that takes nothing is not waited for longer. */
const EMPTY_MS = 1000
const LOOK_MS = 1

/** Of so many on a device, reading all that it has is quicker than asking for each. */
const MANY = 64

type Place = Pick<Placed, 'shard' | 'way' | 'minor'>

export class Queues {
  readonly #netlink: Netlink
  readonly #pairs: Pairs

  constructor(netlink: Netlink, pairs: Pairs) {
    this.#netlink = netlink
    this.#pairs = pairs
  }

  /** Makes the classes what they shall be, on pairs that are ready, those first that others lie in. @throws KernelError, KernelRefusal */
  async put(classes: readonly Placed[]): Promise<void> {
    await this.#haveParents(classes)
    await this.#unplace(classes)
    const inTurn = [...classes].sort((a, b) => a.parent - b.parent)
    await this.#send(this.#puts(inTurn))
  }

  /** The kernel puts a class whose parent is missing at the root and says nothing: a member would escape its pool. */
  async #haveParents(classes: readonly Placed[]): Promise<void> {
    const coming = new Set(classes.map(placeOf))
    const needed = new Map<string, Place>()
    await inSlices(classes, ({ shard, way, parent }) => {
      const it = { shard, way, minor: parent }
      const place = placeOf(it)
      if (parent !== 0 && !coming.has(place)) needed.set(place, it)
    })
    const answers = await this.#netlink.askEach(this.#questions(needed.values()))
    const missing = answers.find((it) => it instanceof KernelError)
    if (missing)
      throw new KernelRefusal(
        'the class of the pool is missing: somebody has removed it; it is put back within a minute, try again',
      )
  }

  /** The kernel never moves a class to another parent: one that lies elsewhere is emptied and removed first. */
  async #unplace(classes: readonly Placed[]): Promise<void> {
    const standing = await this.#standing(classes)
    const elsewhere: Placed[] = []
    await inSlices(classes, (it) => {
      const state = standing.get(placeOf(it))
      if (state && state.parent !== it.parent) elsewhere.push(it)
    })
    if (elsewhere.length === 0) return
    await this.empty(elsewhere)
    await this.remove(elsewhere)
  }

  /** How those stand that are there, and maybe others. */
  async #standing(classes: readonly Placed[]): Promise<Map<string, ClassState>> {
    const ends = new Map<number, Placed[]>()
    await inSlices(classes, (it) => {
      const end = this.#end(it)
      const asked = ends.get(end)
      if (asked) asked.push(it)
      else ends.set(end, [it])
    })
    const found = new Map<string, ClassState>()
    for (const [end, asked] of ends) {
      const [{ shard, way } = {}] = asked
      if (shard === undefined || way === undefined) continue
      const states = asked.length > MANY ? await listClasses(this.#netlink, end) : await this.#asked(asked)
      for (const state of states) found.set(placeOf({ shard, way, minor: state.minor }), state)
    }
    return found
  }

  async #asked(classes: readonly Placed[]): Promise<ClassState[]> {
    const answers = await this.#netlink.askEach(this.#questions(classes))
    return answers.flatMap((it) => (it instanceof KernelError ? [] : (decodeClass(it.payload) ?? [])))
  }

  /** Lets everything out that waits in the classes, and resolves when nothing does. */
  async empty(classes: readonly Placed[]): Promise<void> {
    const there = classes.filter(({ shard }) => this.#pairs.get(shard))
    if (there.length === 0) return
    await this.#send(this.#puts(there, opened))
    await this.#emptied(there)
  }

  async #emptied(classes: readonly Placed[]): Promise<void> {
    const until = performance.now() + EMPTY_MS
    let left = [...classes]
    while (performance.now() < until) {
      const answers = await this.#netlink.askEach(this.#questions(left))
      left = left.filter((_it, at) => waits(answers[at]))
      if (left.length === 0) return
      await new Promise((wait) => setTimeout(wait, LOOK_MS))
    }
  }

  /** Removes classes that nothing leads to any longer; those that others lie in last. What is gone is no error. */
  async remove(classes: readonly Place[]): Promise<void> {
    const there = classes.filter(({ shard }) => this.#pairs.get(shard))
    const inTurn = there.sort((a, b) => a.minor - b.minor)
    const errors = await this.#netlink.request(this.#deletions(inTurn))
    const refused = errors.find((error) => error && error.code !== 'ENOENT' && error.code !== 'ENODEV')
    if (refused) throw refused
  }

  /** What a shard has, by place. */
  async list(shard: number): Promise<{ way: Way; classes: Awaited<ReturnType<typeof listClasses>> }[]> {
    const pair = this.#pairs.get(shard)
    if (pair === undefined) return []
    const found = []
    for (const way of WAYS) {
      const ifindex = endOf(pair, way)
      const classes = (await listClasses(this.#netlink, ifindex)).filter((it) => it.ifindex === ifindex)
      found.push({ way, classes })
    }
    return found
  }

  #end({ shard, way, minor }: Place): number {
    const pair = this.#pairs.get(shard)
    if (pair === undefined) throw new Error(`the pair of class ${placeOf({ shard, way, minor })} is not there`)
    return endOf(pair, way)
  }

  /** One after the other: many are encoded batch by batch. */
  *#puts(classes: readonly Placed[], as = (it: Placed) => it): Generator<Message> {
    for (const it of classes) yield* putClass(this.#end(it), as(it))
  }

  *#deletions(classes: readonly Place[]): Generator<Message> {
    for (const it of classes) yield deleteClass(this.#end(it), it.minor)
  }

  *#questions(classes: Iterable<Place>): Generator<Message> {
    for (const it of classes) yield askClass(this.#end(it), it.minor)
  }

  async #send(messages: Iterable<Message>): Promise<void> {
    const error = (await this.#netlink.request(messages)).find((it) => it !== undefined)
    if (error) throw error
  }
}

function waits(answer: Received | KernelError | undefined): boolean {
  if (answer === undefined || answer instanceof KernelError) return false
  return (decodeClass(answer.payload)?.waiting ?? 0) > 0
}
