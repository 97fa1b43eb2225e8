/** Generates src/api/openapi/document.json from the operations and their Zod schemas. */
import * as z from 'zod/mini'
import { error } from '../src/api/openapi/gateway.ts'
import { type Operation, operations } from '../src/api/openapi/operations.ts'
import { VERSION } from '../src/version.ts'

type Json = Readonly<Record<string, unknown>>

const COMPONENTS = '#/components/schemas/'

/** Reference to a component. */
const ref = (schema: z.ZodMiniType): Json => ({ $ref: COMPONENTS + z.globalRegistry.get(schema)!.id! })

/** Components among the schemas, and those that they refer to. */
function componentsOf(schemas: readonly z.ZodMiniType[]): Json {
  const { $defs } = z.toJSONSchema(z.union(schemas), {
    io: 'input',
    // Clients must ignore unknown keys.
    override: ({ jsonSchema }) => {
      if (jsonSchema.additionalProperties === false) delete jsonSchema.additionalProperties
    },
  })
  return JSON.parse(JSON.stringify($defs).replaceAll('#/$defs/', COMPONENTS)) as Json
}

const parameter = (name: string, place: 'path' | 'query', description: string): Json => ({
  name,
  in: place,
  required: place === 'path',
  description,
  schema: { type: 'string' },
})

const jsonContent = (schema: z.ZodMiniType | undefined): Json => ({
  'application/json': schema === undefined ? {} : { schema: ref(schema) },
})

function operationOf(key: string, { summary, response, media, isPublic, query = {}, body }: Operation): Json {
  const parameters = [
    ...(key.includes('{id}') ? [parameter('id', 'path', 'Engine, key, decision or request.')] : []),
    ...Object.entries(query).map(([name, description]) => parameter(name, 'query', description)),
  ]
  return {
    operationId: key.replaceAll(/[^a-z]+/g, '_').replaceAll(/_$/g, ''),
    summary,
    security: isPublic === true ? [] : [{ admin: [] }],
    ...(parameters.length === 0 ? {} : { parameters }),
    ...(body === undefined
      ? {}
      : { requestBody: { description: body.description, required: true, content: jsonContent(body.schema) } }),
    responses: {
      200: { description: 'Success.', content: media === undefined ? jsonContent(response) : { [media]: {} } },
      default: { description: 'Error.', content: jsonContent(error) },
    },
  }
}

function pathsOf(): Json {
  const paths: Record<string, Json> = {}
  for (const [key, operation] of Object.entries(operations)) {
    const [method, path] = key.split(' ') as [string, string]
    paths[path] = { ...paths[path], [method]: operationOf(key, operation) }
  }
  return paths
}

const schemasOf = ({ response, body }: Operation): z.ZodMiniType[] =>
  [response, body?.schema].filter((schema) => schema !== undefined)

const document: Json = {
  openapi: '3.1.0',
  info: {
    title: 'Firstlight admin API',
    version: VERSION,
    description: 'Operation of the gateway. Inference routes follow OpenAI’s API: docs/api.md.',
    license: { name: 'Apache-2.0', identifier: 'Apache-2.0' },
  },
  servers: [{ url: '/' }],
  paths: pathsOf(),
  components: {
    schemas: componentsOf([error, ...Object.values(operations).flatMap(schemasOf)]),
    securitySchemes: { admin: { type: 'http', scheme: 'bearer', description: '`admin.secret`' } },
  },
}

export const openApiJson = (): string => `${JSON.stringify(document, null, 2)}\n`
