import { HonoBase } from 'hono/hono-base'
import { describe, expect, it } from 'vitest'
import { StaticRouter } from '../../src/api/static-router.ts'

function open(): (method: string, path: string) => Promise<string> {
  const app = new HonoBase({ router: new StaticRouter() })
  app.on('GET', '/a', (c) => c.text('fixed'))
  app.all('/a', (c) => c.text('any'))
  app.on('GET', '/a/:id', (c) => c.text(`id ${c.req.param('id')}`))
  app.on('POST', '/a/:id/drop', (c) => c.text(`drop ${c.req.param('id')}`))
  app.on('GET', '/files/*', (c) => c.text(`below ${c.req.path}`))
  app.on('GET', '/v1.0', (c) => c.text('dotted'))
  app.on('GET', '/v1.0/:id', (c) => c.text('dotted id'))
  return async (method, path) => (await app.fetch(new Request(`http://h${path}`, { method }))).text()
}

describe('the router', () => {
  it.each([
    ['GET', '/a', 'fixed'],
    ['PUT', '/a', 'any'],
    ['GET', '/a?x=/a/1', 'fixed'],
    ['GET', '/a/', '404 Not Found'],
    ['GET', '/a/7', 'id 7'],
    ['GET', '/a/x%2Fy', 'id x/y'],
    ['GET', '/a/7/8', '404 Not Found'],
    ['POST', '/a/7', '404 Not Found'],
    ['POST', '/a/7/drop', 'drop 7'],
    ['GET', '/files/x/y', 'below /files/x/y'],
    ['GET', '/files', '404 Not Found'],
    ['GET', '/v1x0/7', '404 Not Found'],
    ['GET', '/__proto__', '404 Not Found'],
    ['GET', '/', '404 Not Found'],
  ])('answers %s %s with what was meant for it', async (method, path, text) => {
    expect(await open()(method, path)).toBe(text)
  })
})
