/**
 * How much memory and work V8 may spend on a boot. What it leaves in the heap is not given back by itself for long, and on most
 * nodes there is little that it needs memory for.
 */
import { statSync } from 'node:fs'
import { join } from 'node:path'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'

/** Bytes of a store beyond which a node is large. */
const LARGE = 4 << 20
/** Bytes of bytecode that a function runs through before it is worth optimizing: Node's own figure, and that of a boot. */
const BUDGET = { served: 66 << 10, boot: 1 << 20 } as const
/**
 * Node 20 (V8 11) has such a budget to set; Node 22 (V8 12) has none, and V8 writes to stderr of a flag that it does not have.
 * What it counts instead, calls of a function, made no difference to a boot on Node 22 and 24.
 */
const V8_WITHOUT_BUDGET = 12

export interface BootHeap {
  /** To be called once the kernel is brought to the store. On a large node nobody is answered for some 0.1 s. */
  brought(): void
  /** To be called once the node serves. */
  served(): void
}

/**
 * While the program is loaded and built the young generation must not grow, which would cost an idle node 20 MB for good.
 * Nor is there much that runs for long: a seventh of the CPU time would go into optimizing what is over then.
 * A large node would spend a third of its boot on copying what lives through many small young generations: there it may grow,
 * and what the boot has left is collected at its end, which gives 100 MB back.
 */
export function bootHeap(stateDir: string): BootHeap {
  const stored = statSync(join(stateDir, 'stratum.db'), { throwIfNoEntry: false })?.size ?? 0
  const large = stored > LARGE
  if (!large) setFlags(1, BUDGET.boot)
  return {
    brought() {
      if (!large) return
      setFlagsFromString('--expose-gc')
      const collect: () => void = runInNewContext('gc')
      collect()
    },
    served() {
      if (!large) setFlags(2, BUDGET.served)
    },
  }
}

function setFlags(growth: number, budget: number): void {
  setFlagsFromString(`--semi-space-growth-factor=${growth}`)
  if (hasBudget(process.versions.v8)) setFlagsFromString(`--interrupt-budget=${budget}`)
}

/** Whether that version of V8 (`11.3.244.8-node.30`) has the flag. */
export const hasBudget = (v8: string): boolean => Number.parseInt(v8, 10) < V8_WITHOUT_BUDGET
