/** The event stream, read over the control socket. */
import type { Event } from '../../state/events.ts'
import type { End, Gap, Hello } from '../../transport/stream/frames.ts'
import { Refused, Unreachable } from '../client.ts'
import { UsageError, type Verb, type VerbContext } from '../verb.ts'

/** RFC 6455 §7.4.1; the stream uses these codes over the control socket too. */
const GOING_AWAY = 1001

export const verbs: readonly Verb[] = [
  {
    path: 'events tail',
    summary: 'print events as they come, until Ctrl-C; says at its end how to go on from there',
    example: "events tail --since 0 --types 'rule.*'",
    options: [
      { flags: '--since <id>', summary: 'begin after this event; 0: with the first that is kept', integer: true },
      { flags: '--types <types>', summary: 'only these, comma-separated; rule.* means all that begin so' },
      { flags: '--areas <areas>', summary: 'only those of these areas, comma-separated' },
      { flags: '--count <n>', summary: 'end after so many events', integer: true },
    ],
    async run(context) {
      const { count, ...asked } = context.options
      if (count !== undefined && Number(count) < 1) throw new UsageError('--count: must be at least 1')
      const query = new URLSearchParams(
        Object.entries(asked).map(([key, value]): [string, string] => [key, String(value)]),
      )
      const lines = context.lines(`/control/v1/events?${query}`)
      const place: Place = { last: asked.since }
      try {
        await follow(context, lines, place, Number(count ?? Number.POSITIVE_INFINITY))
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

/** Behind which event the next tail would begin; undefined while not even a hello has come. */
interface Place {
  last: unknown
}

const goOn = ({ last }: Place) => (last === undefined ? '' : `; to go on from here: --since ${last}`)

async function follow(context: VerbContext, lines: AsyncIterable<string>, place: Place, count: number): Promise<void> {
  let left = count
  for await (const line of lines) {
    // The shapes are what the agent's stream declares; CLI and agent come from one build.
    const frame: Event | Hello | Gap | End = JSON.parse(line)
    if (!('id' in frame)) {
      await context.printLine(frame)
      obey(frame, place, context)
      continue
    }
    await context.printLine(frame, sentence(frame))
    place.last = frame.id
    left--
    if (left === 0) return
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
