import { addRouteBehind } from '../add-route.ts'
import type { Authenticator } from '../auth/authenticator.ts'
import type { ErrorShape } from '../../protocols/error-shape.ts'
import { modelListFormOf } from '../../protocols/model-list.ts'
import { ContextLengths } from '../context-lengths.ts'
import { clientMiddleware, type RouteMiddlewareParts } from '../route-middleware.ts'
import { authenticate } from '../middleware/authenticate.ts'
import { listModels, type ModelParts, oneModel } from '../models.ts'
import { type App, newApp } from '../new-app.ts'
import type { HttpRequest } from '../request-context.ts'
import { refuseOtherMethods } from '../refuse-other-methods.ts'

interface ModelRouteParts extends ModelParts, RouteMiddlewareParts {
  readonly ports: RouteMiddlewareParts['ports'] & LengthParts['ports']
  readonly models: ModelParts['models'] & LengthParts['models']
  readonly authenticator: Pick<Authenticator, 'caller' | 'openCaller'>
}

type LengthParts = ConstructorParameters<typeof ContextLengths>[0]

const MODELS = '/v1/models/'

const shapeOf = ({ headers }: HttpRequest): ErrorShape => modelListFormOf(headers).errors

export function modelRoutes(routeParts: ModelRouteParts): App {
  const parts = { ...routeParts, lengths: new ContextLengths(routeParts) }
  const app = newApp()
  const entry = clientMiddleware(parts)
  const add = addRouteBehind([...entry, authenticate(parts.authenticator, true)], app, parts, shapeOf)
  add('GET', '/v1/models', (request) => listModels(parts, request))
  // Names contain slashes, encoded or not.
  add('GET', `${MODELS}*`, (request) => {
    const { path } = request.incoming
    return oneModel(parts, request, nameIn(path.slice(path.indexOf(MODELS) + MODELS.length)))
  })
  return refuseOtherMethods(app, parts.config.cors, () => addRouteBehind(entry, app, parts, shapeOf))
}

function nameIn(encoded: string): string {
  try {
    return decodeURIComponent(encoded)
  } catch {
    return encoded
  }
}
