# The numbers of reference.json: Rscript reference.R > reference.json (R 4.2.2, mice 3.15.0, mitml 0.4.4, jsonlite 1.8.4)
suppressMessages(library(mice))
nested <- function(full, small, dfcom = NULL) {
  m <- length(full$analyses)
  row <- function(test) as.list(setNames(as.numeric(test$result), c("statistic", "df1", "df2", "p_value", "riv")))
  third <- D3(full, small)
  list(
    terms = setdiff(names(coef(full$analyses[[1]])), names(coef(small$analyses[[1]]))),
    D1 = row(D1(full, small)),
    D1_large = row(D1(full, small, dfcom = 1e12)),
    D2 = row(D2(full, small)),
    D3 = row(third),
    own = third$deviances$dev0.M - third$deviances$dev1.M,
    at_pooled = third$deviances$dev0.L - third$deviances$dev1.L
  )
}
described <- function(full, small) {
  rows <- function(pooled) {
    all <- summary(pooled, type = "all", conf.int = TRUE)
    lapply(split(all, all$term), as.list)
  }
  list(
    terms = names(coef(full$analyses[[1]])),
    estimates = t(sapply(full$analyses, coef)),
    covariances = lapply(full$analyses, function(fit) unname(vcov(fit))),
    df_complete = df.residual(full$analyses[[1]]),
    pooled = rows(pool(full)),
    pooled_large = rows(pool(full, dfcom = Inf)),
    test = nested(full, small)
  )
}
few <- mice(nhanes2, m = 5, seed = 1, printFlag = FALSE)
many <- mice(nhanes2, m = 20, seed = 2, printFlag = FALSE)
two <- mice(nhanes2, m = 2, seed = 3, printFlag = FALSE)
lines <- function(imputed) described(with(imputed, lm(bmi ~ age + hyp + chl)), with(imputed, lm(bmi ~ chl)))
# As D1 of mice takes it, Reiter's formula is used outside its range (k (m - 1) <= 4); this is Li et al.'s:
li <- mitml::testModels(
  with(two, lm(bmi ~ age + hyp + chl))$analyses, with(two, lm(bmi ~ chl))$analyses, method = "D1"
)$test
scalar <- pool.scalar(c(1.2, 0.9, 1.5, 1.1), c(0.04, 0.05, 0.045, 0.042), n = 30, k = 3)
cat(jsonlite::toJSON(list(
  lm_5 = lines(few),
  lm_20 = lines(many),
  lm_2 = lines(two),
  glm_5 = described(with(few, glm(hyp ~ bmi + chl, family = binomial)), with(few, glm(hyp ~ 1, family = binomial))),
  li_2 = as.numeric(li),
  scalar = scalar
), digits = NA, auto_unbox = TRUE, pretty = FALSE))
