/** What is not supported on purpose (501), over all routes of this build. */
import t from 'tap'
import { ask, openAgent } from './ask.ts'

const P = '/api/v1'
const UNSUPPORTED = [`PUT ${P}/dns/records/:id`, `PUT ${P}/lb/:id`]

t.test('err-08 501 is answered by the two routes that cannot change a thing in place, and by no other', async (t) => {
  const { agent } = await openAgent(t, { only: undefined as never })
  const routes = agent.routes.flatMap(({ method, url }) =>
    url.startsWith(P) ? [method].flat().map((verb) => ({ label: `${verb} ${url}`, verb, url })) : [],
  )
  t.ok(routes.length > 100, `${routes.length} routes`)
  const answered: string[] = []
  for (const { label, verb, url } of routes) {
    const json = verb === 'POST' || verb === 'PUT' ? { json: {} } : {}
    const { status } = await ask(agent, verb, url.replace(/:[a-z_]+/gi, '1'), json)
    t.not(status, 500, label)
    if (status === 501) answered.push(label)
  }
  t.same(answered.sort(), UNSUPPORTED)
})
