import { clientModelsContract } from '../../contracts/client-models.ts'

clientModelsContract('the built Worker', 'worker')
