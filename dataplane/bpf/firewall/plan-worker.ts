/** The thread of plan-thread.ts: one question, one answer. */
import { parentPort } from 'node:worker_threads'
import { closePrototype } from '../../prototype.ts'
import { plan } from './plan.ts'
import type { Question } from './plan-thread.ts'

closePrototype()
parentPort?.once('message', ({ images, family }: Question) => parentPort?.postMessage(plan(images, family)))
