/** Building blocks of the schemas. Clients must ignore unknown keys, so every object is open. */
// zod/mini: the method-chaining form of zod adds 20 kB (gzip) to the Worker.
import * as z from 'zod/mini'

export const text = z.string()
export const number = z.number()
export const flag = z.boolean()
export const texts = z.array(text)

/** Object whose fields another gateway decides. */
export const anyObject = z.record(z.string(), z.unknown())

export const described = <Schema extends z.ZodMiniType>(description: string, schema: Schema): Schema =>
  schema.with(z.meta({ description }))

/** Schema that the document has once, under this name. */
export function component<Schema extends z.ZodMiniType>(id: string, schema: Schema): Schema {
  const named = schema.clone()
  // Not `with`: a copy with a description of its own would have the same id.
  z.globalRegistry.add(named, { id })
  return named
}

export const milliseconds = described('Milliseconds since the epoch.', number)

/** Durations before the first token. */
export const stages = described('Milliseconds of each stage (docs/traces.md).', z.record(z.string(), number))
