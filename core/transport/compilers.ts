/**
 * What checks a request and writes an answer is made of its schema when the first request of its kind comes, not at the start:
 * some 500 of them would take a fifth of the time in which a node is without its agent, and most nodes use a few.
 */
import { AjvCompiler } from '@fastify/ajv-compiler'
import { SerializerSelector } from '@fastify/fast-json-stringify-compiler'
import type { ValidateFunction } from 'ajv'
import type { FastifyServerOptions } from 'fastify'

type Check = ((data: unknown) => unknown) & Pick<ValidateFunction, 'errors'>

/** Fastify's `schemaController`: its own compilers, each asked at the first use of what it is to make. */
export function lateCompilers(): NonNullable<FastifyServerOptions['schemaController']> {
  const [validators, serializers] = [AjvCompiler(), SerializerSelector()]
  return {
    compilersFactory: {
      buildValidator(...given: Parameters<typeof validators>) {
        const compile = validators(...given)
        return (route: Parameters<typeof compile>[0]) => {
          let made: Check | undefined
          const late: Check = (data) => {
            made ??= compile(route)
            const accepted = made(data)
            if (made.errors !== undefined) late.errors = made.errors
            return accepted
          }
          return late as ReturnType<typeof compile>
        }
      },
      buildSerializer(...given: Parameters<typeof serializers>) {
        const compile = serializers(...given)
        return (route: Parameters<typeof compile>[0]) => {
          let made: ((data: unknown) => string) | undefined
          return (data: unknown) => {
            made ??= compile(route)
            return made(data)
          }
        }
      },
    },
  }
}
