/** The event stream, read over the control socket. */
import { setTimeout as wait } from 'node:timers/promises'
import type { Event } from '../../state/events.ts'
import type { End, Gap, Hello } from '../../transport/stream/frames.ts'
import { Refused, Unreachable } from '../client.ts'
import { UsageError, type Verb, type VerbContext } from '../verb.ts'

/** RFC 6455 §7.4.1; the stream uses these codes over the control socket too. */
const GOING_AWAY = 1001
/** A restart takes seconds. */
const WAIT_S = 30
const AGAIN_MS = 250

export const verbs: readonly Verb[] = [
  {
    path: 'events tail',
    summary:
      'print events as they come, until Ctrl-C, also while the agent is started anew; says at its end how to go on',
    example: "events tail --since 0 --types 'rule.*'",
    options: [
      { flags: '--since <id>', summary: 'begin after this event; 0: with the first that is kept', integer: true },
      { flags: '--types <types>', summary: 'only these, comma-separated; rule.* means all that begin so' },
      { flags: '--areas <areas>', summary: 'only those of these areas, comma-separated' },
      { flags: '--count <n>', summary: 'end after so many events', integer: true },
      { flags: '--wait <time>', summary: `how long an agent may be away; ${WAIT_S}s unless given`, duration: true },
    ],
    async run(context) {
      const { count, wait: patience = WAIT_S, ...asked } = context.options
      if (count !== undefined && Number(count) < 1) throw new UsageError('--count: must be at least 1')
      const place: Place = { last: asked.since, left: Number(count ?? Number.POSITIVE_INFINITY) }
      try {
        await followOn(context, asked, place, Number(patience) * 1000)
      } catch (error) {
        if (!(error instanceof Unreachable || error instanceof Ended)) throw error
        const message = `${error.message}${goOn(place)}`
        throw error instanceof Ended ? new Refused(503, { error: message }) : new Unreachable(message, { cause: error })
      }
      context.note(`the tail ends${goOn(place)}`)
    },
  },
]

/** The agent has ended this tail and goes on itself. */
class Ended extends Error {}

interface Place {
  /** Behind which event the next tail would begin; undefined while not even a hello has come. */
  last: unknown
  /** How many events are still wanted. */
  left: number
}

const goOn = ({ last }: Place) => (last === undefined ? '' : `; to go on from here: --since ${last}`)

/** Goes on behind the last event whenever the agent is back within `patienceMs`. An agent that was never there is not waited for. */
async function followOn(context: VerbContext, asked: object, place: Place, patienceMs: number): Promise<void> {
  let lost: number | undefined
  let met = false
  for (;;) {
    const since = place.last === undefined ? {} : { since: place.last }
    const query = new URLSearchParams(
      Object.entries({ ...asked, ...since }).map(([key, value]): [string, string] => [key, String(value)]),
    )
    const heard = () => {
      lost = undefined
      met = true
    }
    try {
      return await follow(context, context.lines(`/control/v1/events?${query}`), place, heard)
    } catch (error) {
      if (!(error instanceof Unreachable) || !met) throw error
      const now = performance.now()
      if (lost === undefined && patienceMs > 0) context.note(`${error.message}; waiting for it`)
      lost ??= now
      if (now - lost + AGAIN_MS > patienceMs) throw error
      await wait(AGAIN_MS)
    }
  }
}

async function follow(
  context: VerbContext,
  lines: AsyncIterable<string>,
  place: Place,
  heard: () => void,
): Promise<void> {
  for await (const line of lines) {
    // The shapes are what the agent's stream declares; CLI and agent come from one build.
    const frame: Event | Hello | Gap | End = JSON.parse(line)
    heard()
    if (!('id' in frame)) {
      await context.printLine(frame)
      obey(frame, place, context)
      continue
    }
    await context.printLine(frame, sentence(frame))
    place.last = frame.id
    place.left--
    if (place.left === 0) return
  }
}

function obey(frame: Hello | Gap | End, place: Place, { note }: VerbContext): void {
  if (frame.type === 'stream.hello') {
    place.last ??= frame.data.latest
  } else if (frame.type === 'stream.gap') {
    const { from, to } = frame.data
    place.last = to
    const foreign = 'the given event is none of this node: its database is another one'
    note(from === 0 ? foreign : `events ${from} to ${to} are not kept any more`)
  } else {
    const { code, reason } = frame.data
    throw code === GOING_AWAY ? new Unreachable(reason) : new Ended(reason)
  }
}

const sentence = ({ time, id, type, resource, actor }: Event) =>
  `${time}  ${id}  ${type}  ${resource}  ${actor.kind} ${actor.label}`
