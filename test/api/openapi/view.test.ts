/** The type check finds the failures of this file. */
import { expectTypeOf, it } from 'vitest'
import * as z from 'zod/mini'
import type { AllFields, ViewOf } from '../../../src/api/openapi/view.ts'

interface Report {
  readonly engineId: string
  readonly parts: readonly { readonly name: string; readonly waitedMs?: number }[] | null
  readonly terms: Readonly<Record<string, number>>
}

const number = z.number()
const fields = { engine_id: z.string(), terms: z.record(z.string(), number) }
const part = z.object({ name: z.string(), waited_ms: z.optional(number) })
const exact = z.object({ ...fields, parts: z.nullable(z.array(part)) })

it('the view of a type has the fields of its schema if both have the same', () => {
  expectTypeOf<ViewOf<typeof exact, Report>>().toEqualTypeOf<{
    readonly engine_id: string
    readonly parts: readonly { readonly name: string; readonly waited_ms?: number | undefined }[] | null
    readonly terms: Readonly<Record<string, number>>
  }>()
})

it('a view names the optional field that only its type has, at any depth', () => {
  const lacking = z.object({ ...fields, parts: z.nullable(z.array(z.object({ name: z.string() }))) })
  expectTypeOf<ViewOf<typeof lacking, Report>>().toEqualTypeOf<{ readonly differs: 'parts.waited_ms' }>()
})

it('a view names the optional field that only its schema has, at any depth', () => {
  const more = z.object({ ...fields, parts: z.nullable(z.array(z.extend(part, { moved: z.optional(number) }))) })
  expectTypeOf<ViewOf<typeof more, Report>>().toEqualTypeOf<{ readonly differs: 'parts.moved' }>()
})

it('a schema may describe fields of its type as a map', () => {
  const map = z.object({ ...fields, parts: z.nullable(z.array(z.record(z.string(), z.unknown()))) })
  expectTypeOf<ViewOf<typeof map, Report>>().not.toHaveProperty('differs')
})

it('a view that code states has its optional fields, too', () => {
  expectTypeOf<AllFields<{ readonly a?: number | undefined }>>().toEqualTypeOf<{ readonly a: number | undefined }>()
})
