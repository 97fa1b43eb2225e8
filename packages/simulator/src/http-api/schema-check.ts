import type { Body } from './body-fields.ts'
import { badRequest } from './wire-error.ts'

const TYPES = new Set(['null', 'boolean', 'integer', 'number', 'string', 'array', 'object'])

/** vLLM compiles the schema of `response_format` into a grammar and rejects a schema that does not compile. */
export function checkResponseFormat(body: Body): void {
  const format = body['response_format'] as { type?: unknown; json_schema?: { schema?: unknown } } | undefined
  if (format?.type === 'json_schema') checkTypes(format.json_schema?.schema)
}

function checkTypes(schema: unknown): void {
  if (typeof schema !== 'object' || schema === null) return
  const { type, properties, items } = schema as { type?: unknown; properties?: object; items?: unknown }
  for (const name of Array.isArray(type) ? type : [type]) {
    if (name !== undefined && !TYPES.has(String(name))) throw badRequest(`Grammar error: Invalid type: ${String(name)}`)
  }
  checkTypes(items)
  for (const property of Object.values(properties ?? {})) checkTypes(property)
}
