import type { Authenticator } from '../auth/authenticator.ts'
import { modelListFormOf } from '../../protocols/model-list.ts'
import { ContextLengths } from '../context-lengths.ts'
import { clientGuards, type RouteMiddlewareParts } from '../route-middleware.ts'
import { requestLog } from '../middleware/request-log.ts'
import { authenticate } from '../middleware/authenticate.ts'
import { listModels, type ModelParts, oneModel } from '../models.ts'
import { type App, newApp } from '../new-app.ts'
import type { Chain, Middleware } from '../middleware/middleware.ts'
import { refuseOtherMethods } from '../refuse-other-methods.ts'

interface ModelRouteParts extends ModelParts, RouteMiddlewareParts {
  readonly ports: RouteMiddlewareParts['ports'] & LengthParts['ports']
  readonly models: ModelParts['models'] & LengthParts['models']
  readonly authenticator: Pick<Authenticator, 'caller' | 'openCaller'>
}

type LengthParts = ConstructorParameters<typeof ContextLengths>[0]

const MODELS = '/v1/models/'

export function modelRoutes(routeParts: ModelRouteParts): App {
  const parts = { ...routeParts, lengths: new ContextLengths(routeParts) }
  const app = newApp()
  const log: Middleware = (c, next) => requestLog(parts, modelListFormOf(c.req.raw.headers).errors)(c, next)
  const entry: Chain = [log, ...clientGuards(parts.config)]
  const chain: Chain = [...entry, authenticate(parts.authenticator, true)]
  app.get('/v1/models', ...chain, (c) => listModels(parts, { incoming: c.get('incoming'), caller: c.get('caller') }))
  // Names contain slashes, encoded or not.
  app.get(`${MODELS}*`, ...chain, (c) => {
    const incoming = c.get('incoming')
    const { path } = incoming
    return oneModel(
      parts,
      { incoming, caller: c.get('caller') },
      nameIn(path.slice(path.indexOf(MODELS) + MODELS.length)),
    )
  })
  return refuseOtherMethods(app, parts.config.cors, () => entry)
}

function nameIn(encoded: string): string {
  try {
    return decodeURIComponent(encoded)
  } catch {
    return encoded
  }
}
