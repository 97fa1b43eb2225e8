import type { Authenticator } from '../auth/authenticator.ts'
import { clientEntry, type EntryParts } from '../entry.ts'
import { authenticate } from '../middleware/authenticate.ts'
import { listModels, type ModelParts, oneModel } from '../models.ts'
import { type App, newApp } from '../new-app.ts'
import type { Chain } from '../request-env.ts'
import { refuseOtherMethods } from '../refuse-other-methods.ts'

interface ModelRouteParts extends ModelParts, EntryParts {
  readonly authenticator: Pick<Authenticator, 'caller'>
}

const MODELS = '/v1/models/'

export function modelRoutes(parts: ModelRouteParts): App {
  const app = newApp()
  const chain: Chain = [...clientEntry(parts), authenticate(parts.authenticator, true)]
  app.get('/v1/models', ...chain, (c) => listModels(parts, c.get('incoming'), c.get('caller')))
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
  return refuseOtherMethods(app, parts.config.cors, () => clientEntry(parts))
}

function nameIn(encoded: string): string {
  try {
    return decodeURIComponent(encoded)
  } catch {
    return encoded
  }
}
