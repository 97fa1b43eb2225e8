/** Keys of a site. */
export const ADMIN = 'admin-secret-for-benches'
export const FIELD_KEY = 'field-secret-for-benches'

/** Key of one pool's cases, whose limit of tokens no case reaches. Its name is that of the model. */
export const limitedKey = (model: string): string => `limited-secret-of-${model}`
