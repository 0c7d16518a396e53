/** The order of a start: the data plane is opened, the kernel is brought to the store, the areas run. */
import type { Stages } from './stages.ts'
import type { Queue } from './state/queue.ts'

export interface Start {
  /** Resolves once the kernel can be asked. Begins that, the first time. @throws what opening does */
  opened(): Promise<void>
  /** Resolves once the kernel holds what is stored, as far as it can, and the areas run. Begins that, the first time. */
  start(): Promise<void>
  /** Lets go of whoever waits for a start that will not be. Resolves once nothing of it goes on but the opening, which may never end. */
  abandon(): Promise<void>
}

export interface StartParts {
  queue: Queue
  stages: Stages
  /** Whoever closes the agent meanwhile does not wait for it: it lets go itself of what it has opened too late. */
  open(): Promise<void>
  /** Never rejects. */
  bring(): Promise<void>
  run(): Promise<void>
}

export function openStart({ queue, stages, open, bring, run }: StartParts): Start {
  let begin: () => void = () => {}
  let refuse: () => void = () => {}
  const opening = new Promise<void>((resolve, reject) => {
    begin = () => open().then(resolve, reject)
    refuse = () => reject(new Error('the agent was closed before it started'))
  })
  // First in the queue, so that every change is built on what it has brought.
  const brought = queue.exclusively(() => opening.then(bring, () => {}))
  const opened = once(async () => {
    begin()
    await opening
    stages.reached('plane')
  })
  let running: Promise<void> | undefined
  const start = () => {
    running ??= (async () => {
      await opened()
      await brought
      await run()
      stages.reached('start')
    })()
    return running
  }
  return {
    opened,
    start,
    async abandon() {
      refuse()
      await running?.catch(() => {})
    },
  }
}

function once(work: () => Promise<void>): () => Promise<void> {
  let running: Promise<void> | undefined
  return () => {
    running ??= work()
    return running
  }
}
