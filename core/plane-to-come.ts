/** The plane of an agent that answers already and has not opened it yet. */
import type { Plane } from '../dataplane/plane.ts'
import { tryAgain } from './errors.ts'

/** What can be said without a kernel. Whoever asks for more should have waited (core/stages.ts), and is not told a guess. */
const COMING: Partial<Plane> = {
  check: () => [],
  kinds: new Set(),
  close: async () => {},
}

export interface PlaneToCome {
  /** The same object before and after. Until then what it cannot tell throws an ApiError 503. */
  plane: Plane
  arrived(plane: Plane): void
}

export function planeToCome(): PlaneToCome {
  let real: Plane | undefined
  const plane = new Proxy({} as Plane, {
    get(_target, name) {
      if (real !== undefined) return Reflect.get(real, name)
      if (Object.hasOwn(COMING, name)) return Reflect.get(COMING, name)
      throw tryAgain('the agent is starting: it opens the data plane')
    },
  })
  return {
    plane,
    arrived(opened) {
      real = opened
    },
  }
}
