/** Machines around a node: each a namespace with a process in it that serves and asks. */
import { fileURLToPath } from 'node:url'
import type { Netns } from '../../../../test/netns.ts'
import type { orders } from './peer.ts'

type Orders = typeof orders
type Given<O extends keyof Orders> = Parameters<Orders[O]>[0]
type Answer<O extends keyof Orders> = Awaited<ReturnType<Orders[O]>>

export interface Machine {
  ns: Netns
  tell<O extends keyof Orders>(order: O, given: Given<O>): Promise<Answer<O>>
}

/** Starts the process; it ends with the namespace. */
export function machine(ns: Netns): Machine {
  const script = fileURLToPath(new URL('./peer.js', import.meta.url))
  const child = ns.spawn(process.execPath, [script], { stdio: ['ignore', 'inherit', 'inherit', 'ipc'] })
  const waiting = new Map<number, (answer: never) => void>()
  child.on('message', ({ id, answer }: { id: number; answer: never }) => {
    waiting.get(id)?.(answer)
    waiting.delete(id)
  })
  let next = 0
  return {
    ns,
    tell(order, given) {
      const id = next++
      child.send({ id, order, given })
      return new Promise((resolve) => void waiting.set(id, resolve))
    },
  }
}
