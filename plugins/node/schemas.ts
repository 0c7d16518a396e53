import { type Static, Type } from 'typebox'
import { Problem, StringEnum } from '../../core/schemas.ts'

export const Health = Type.Object({ status: StringEnum(['healthy']), uptime: Type.String() })

export const Status = Type.Object({
  status: StringEnum(['starting', 'running', 'degraded']),
  version: Type.String(),
  uptime: Type.String(),
  warnings: Type.Optional(
    Type.Array(Type.String(), { description: 'why it is degraded, or what it does at its start' }),
  ),
  acceleration: Type.Object({
    mode: StringEnum(['xdp-native', 'xdp-generic', 'tc', 'none']),
    summary: Type.String(),
    detail: Type.String(),
  }),
})

/** Text, which no schema describes further. */
export const Metrics = {
  description: 'Prometheus text exposition format 0.0.4',
  content: { 'text/plain': { schema: Type.String() } },
}

export const PublicKey = {
  200: {
    description: 'SubjectPublicKeyInfo, PEM (RFC 7468 §13)',
    content: { 'text/plain': { schema: Type.String() } },
  },
  404: { description: 'The agent has no certificate.', content: { 'application/json': { schema: Problem } } },
}

export const Endpoint = Type.Object({
  method: Type.String(),
  path: Type.String(),
  area: Type.String(),
  summary: Type.String(),
  auth: StringEnum(['none', 'token', 'tenant']),
  feature: Type.Union([Type.String(), Type.Null()]),
  success: Type.Integer(),
})

export const Index = Type.Object({
  name: Type.String(),
  version: Type.String(),
  base: Type.String(),
  count: Type.Integer(),
  endpoints: Type.Array(Endpoint),
})

export const DocumentsQuery = Type.Object({
  format: Type.Optional(
    StringEnum(['json', 'openapi', 'asyncapi'], { description: 'json, the default, is the index' }),
  ),
})
export const Documents = Type.Union([
  Index,
  Type.Object({ openapi: Type.String({ description: 'version of OpenAPI' }) }),
  Type.Object({ asyncapi: Type.String({ description: 'version of AsyncAPI' }) }),
])

export type Endpoint = Static<typeof Endpoint>
export type Index = Static<typeof Index>
