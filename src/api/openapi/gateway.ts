/** The gateway itself: readiness and errors. */
import * as z from 'zod/mini'
import { component, text } from './fields.ts'
import type { View } from './view.ts'

export const ready = component('Ready', z.object({ status: z.enum(['ready', 'not_ready']), reason: z.optional(text) }))

export type ReadyView = View<typeof ready>

/** `openaiErrors` (src/protocols) builds it. */
export const error = component(
  'Error',
  z.object({ error: z.object({ message: text, type: text, param: z.nullable(text), code: text }) }),
)
