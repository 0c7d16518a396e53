/** The AsyncAPI 3 document of the event stream, made from what the areas and the core declare that they emit. */
import type { DeclaredEvent } from '../../core/state/core-events.ts'
import { envelope, Gap, Hello } from '../../core/transport/stream/frames.ts'
import { Query } from '../../core/transport/stream/question.ts'
import { EVENTS_PATH } from '../../core/transport/stream.ts'
import { openComponents } from './components.ts'

const CHANNEL = '#/channels/events'

/** @throws Error when two different schemas have one title */
export function asyncApi(version: string, events: readonly DeclaredEvent[]): object {
  const { named, place } = openComponents()
  const frames = [
    { name: 'stream.hello', summary: 'First: which stream this is, and what of it is kept.', payload: Hello },
    { name: 'stream.gap', summary: 'Events that are kept no more were skipped.', payload: Gap },
    ...events.map(({ type, area, data }) => ({
      name: type,
      summary: `An event of ${area}.`,
      payload: envelope(type, area, data),
    })),
  ]
  const messages = frames.map(({ name, summary, payload }) => [name, { name, summary, payload: place(payload) }])
  const refer = (to: string) => frames.map(({ name }) => [name, { $ref: `${to}/messages/${name}` }] as const)
  return {
    asyncapi: '3.0.0',
    info: { title: 'stratum-node events', version, description: ABOUT },
    defaultContentType: 'application/json',
    servers: {
      node: {
        host: '{node}:{port}',
        protocol: 'wss',
        variables: {
          node: { default: 'localhost', description: 'Name or address of the node.' },
          port: { default: '7072', description: 'events_port of its configuration.' },
        },
        security: [{ $ref: '#/components/securitySchemes/bearer' }],
      },
    },
    channels: {
      events: {
        address: EVENTS_PATH,
        messages: Object.fromEntries(refer('#/components')),
        bindings: { ws: { method: 'GET', query: place(Query), bindingVersion: '0.1.0' } },
      },
    },
    operations: {
      sendEvents: {
        action: 'send',
        channel: { $ref: CHANNEL },
        summary: 'One JSON text a frame. What a reader sends is ignored.',
        messages: refer(CHANNEL).map(([, reference]) => reference),
      },
    },
    components: {
      schemas: named,
      messages: Object.fromEntries(messages),
      securitySchemes: {
        bearer: { type: 'http', scheme: 'bearer', description: 'The node token, in the Authorization header.' },
      },
    },
  }
}

const ABOUT =
  'Every change of the node is one event, sent after it is in force. Ids grow by one; a reader that comes back with ' +
  '`since` misses nothing and gets nothing twice. A reader that takes nothing is closed with 1013 and may come back.'
