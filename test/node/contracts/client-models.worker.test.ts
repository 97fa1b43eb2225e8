import { clientModelsContract } from '../../contracts/client-models.ts'

clientModelsContract('worker')
