import { describe, expect, it } from 'vitest'
import openApiDocument from '../../src/api/openapi/document.json' with { type: 'json' }
import { createGateway } from '../../src/gateway.ts'
import { configOf, openRecordingPorts } from '../kit/recording-ports.ts'

interface Document {
  readonly paths: Readonly<Record<string, Readonly<Record<string, { readonly operationId: string }>>>>
  readonly components: { readonly schemas: Readonly<Record<string, unknown>> }
}

const document: Document = openApiDocument

const OPERATION = /^\/(?:v1\/firstlight\/|health$|ready$|version$|metrics$|openapi\.json$)/
/** Routes for gateways, bridges and pages, not for operators' programs. */
const OTHERS = /^\/v1\/firstlight\/(?:digest|kv-events)$/

describe('the OpenAPI document', () => {
  it('the OpenAPI document has every route of the admin API, and no other', () => {
    const gateway = createGateway(configOf(), openRecordingPorts().ports)
    const routes = Object.values(gateway.routes)
      .flatMap((app) => app.routes)
      .filter(({ method, path }) => method !== 'ALL' && OPERATION.test(path) && !OTHERS.test(path))
      .map(({ method, path }) => `${method.toLowerCase()} ${path.replaceAll(/:(\w+)(?:\{[^}]*\})?/g, '{$1}')}`)
    const written = Object.entries(document.paths).flatMap(([path, methods]) =>
      Object.keys(methods).map((method) => `${method} ${path}`),
    )
    expect([...new Set(routes)].toSorted()).toEqual(written.toSorted())
  })

  it('the OpenAPI document names each operation once, and refers to schemas that exist', () => {
    const ids = Object.values(document.paths).flatMap((methods) => Object.values(methods).map((one) => one.operationId))
    expect(new Set(ids).size).toBe(ids.length)
    const refs = [...JSON.stringify(document).matchAll(/"#\/components\/schemas\/(\w+)"/g)].map(([, name]) => name!)
    expect(refs.filter((name) => document.components.schemas[name] === undefined)).toEqual([])
  })

  it('the OpenAPI document forbids no unknown key, because clients must ignore them', () => {
    expect(JSON.stringify(document)).not.toContain('"additionalProperties":false')
  })
})
