/** Plans on a thread of its own: for many rules that takes seconds. */
import { Worker } from 'node:worker_threads'
import type { Family } from './image.ts'
import type { Mask } from './mask.ts'
import { plan } from './plan.ts'

/** So many rules are planned at once, in a few ms. */
const AT_ONCE = 300

export interface Question {
  images: Uint32Array
  family: Family
}

/** The masks for `count` rules; `images` is given away. */
export function planFor({ images, family }: Question, count: number): Promise<Mask[]> {
  if (count <= AT_ONCE) return Promise.resolve(plan(images, family))
  return new Promise((resolve, reject) => {
    const thread = new Worker(new URL('./plan-worker.js', import.meta.url))
    thread.once('message', (masks: Mask[]) => {
      resolve(masks)
      void thread.terminate()
    })
    thread.once('error', reject)
    thread.once('exit', () => reject(new Error('the thread that plans tables ended')))
    thread.postMessage({ images, family }, [images.buffer as ArrayBuffer])
  })
}
