/** Packets that were on their way while something befell the agent, by what that was. */
import type { Stream } from './streams.ts'

export interface Crossed {
  times: number
  sent: number
  lost: number
}

interface Span {
  what: string
  stream: Stream
  from: number
  to: number
}

export class Crossings {
  readonly crossed = new Map<string, Crossed>()
  #spans: Span[] = []

  /** From now on until what it returns is called. */
  async begin(what: string, streams: readonly Stream[]): Promise<() => Promise<void>> {
    const begun = await Promise.all(streams.map(async (stream) => ({ what, stream, from: await stream.sent() })))
    return async () => {
      const spans = await Promise.all(begun.map(async (span) => ({ ...span, to: await span.stream.sent() })))
      this.#spans.push(...spans)
      const sum = this.#sum(what)
      sum.times++
      sum.sent += spans.reduce((all, { from, to }) => all + to - from, 0)
    }
  }

  /** To be called when the stream has ended: which of its packets did not come. */
  ended(stream: Stream, missing: readonly number[]): void {
    for (const { what, from, to } of this.#spans.filter((span) => span.stream === stream)) {
      this.#sum(what).lost += missing.filter((n) => n >= from && n < to).length
    }
    this.#spans = this.#spans.filter((span) => span.stream !== stream)
  }

  #sum(what: string): Crossed {
    const found = this.crossed.get(what) ?? { times: 0, sent: 0, lost: 0 }
    this.crossed.set(what, found)
    return found
  }
}
